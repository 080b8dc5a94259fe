// A CSI driver on grpc-go, as nearly all drivers are, with just the calls that lead to a registration.
package main

import (
	"errors"
	"flag"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

func main() {
	socket := flag.String("socket", "", "where to listen")
	name := flag.String("name", "go.foreign.test", "the driver's name")
	node := flag.String("node-id", "node-1", "the node's id")
	idle := flag.Duration("max-connection-idle", 0, "close connections that are idle for so long; 0: never")
	age := flag.Duration("max-connection-age", 0, "close connections that are older than that; 0: never")
	flag.Parse()
	if *socket == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(64)
	}

	var plugin, info message
	plugin.putString(1, *name)
	plugin.putString(2, "1.2.3")
	info.putString(1, *node)
	answers := map[string]message{
		"/csi.v1.Identity/GetPluginInfo":         plugin,
		"/csi.v1.Identity/GetPluginCapabilities": nil,
		"/csi.v1.Identity/Probe":                 nil,
		"/csi.v1.Node/NodeGetInfo":               info,
		"/csi.v1.Node/NodeGetCapabilities":       nil,
	}

	// Drivers in the field do just this with the socket of their last run.
	if err := os.Remove(*socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", *socket)
	if err != nil {
		log.Fatal(err)
	}
	closing := grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: *idle, MaxConnectionAge: *age})
	server := grpc.NewServer(closing, grpc.CustomCodec(raw{}), grpc.UnknownServiceHandler(
		func(_ interface{}, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			var request message
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			answer, known := answers[method]
			if !known {
				return status.Errorf(codes.Unimplemented, "unknown method %s", method)
			}
			log.Printf("answering %s", method)
			return stream.SendMsg(&answer)
		}))
	log.Fatal(server.Serve(listener))
}
