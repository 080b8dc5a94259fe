// A gRPC server on a Unix socket that answers as a file says, and writes down each call. It plays CSI
// drivers and their registrars; what the messages mean is the tests' to know. grpc-go, because most of
// the drivers and node-driver-registrar are built on it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// answer is what the script has for a method. The script is read at each call, so that a server can
// change its mind while it runs.
type answer struct {
	Message []byte     // in base64
	Code    codes.Code // 0: the message is sent
	Error   string
	Delay   float64 // seconds before either
	Until   string  // a file that has to be gone before either
	Mount   int     // the field of the request that names where to mount a file system
	Unmount int     // the field that names what to unmount
}

// call is one line of the record, written when the call has come.
type call struct {
	Time    int64 // nanoseconds
	Method  string
	Request []byte // in base64
}

func main() {
	socket := flag.String("socket", "", "where to listen")
	script := flag.String("script", "", "the answers by method, in JSON")
	record := flag.String("record", "", "where calls are written down, a line of JSON for each")
	flag.Parse()
	if *socket == "" || *script == "" || *record == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(64)
	}

	// Drivers in the field do just this with the socket of their last run.
	if err := os.Remove(*socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", *socket)
	if err != nil {
		log.Fatal(err)
	}
	output, err := os.OpenFile(*record, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	var mutex sync.Mutex
	server := grpc.NewServer(grpc.CustomCodec(raw{}), grpc.UnknownServiceHandler(
		func(_ interface{}, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			var request message
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			mutex.Lock()
			err := json.NewEncoder(output).Encode(call{time.Now().UnixNano(), method, request})
			mutex.Unlock()
			if err != nil {
				log.Fatal(err)
			}
			answer, err := perform(*script, method, request)
			if err != nil {
				return err
			}
			return stream.SendMsg(&answer)
		}))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		// It removes the socket; only a kill leaves it behind.
		server.Stop()
	}()
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}

// perform does and answers what the script says.
func perform(script, method string, request message) (message, error) {
	text, err := os.ReadFile(script)
	if err != nil {
		return nil, err
	}
	answers := map[string]answer{}
	if err := json.Unmarshal(text, &answers); err != nil {
		return nil, err
	}
	answer, known := answers[method]
	if !known {
		return nil, status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	time.Sleep(time.Duration(answer.Delay * float64(time.Second)))
	for answer.Until != "" && exists(answer.Until) {
		time.Sleep(10 * time.Millisecond)
	}
	if answer.Code != codes.OK {
		return nil, status.Error(answer.Code, answer.Error)
	}
	fields, err := request.strings()
	if err != nil {
		return nil, err
	}
	if answer.Mount != 0 {
		place := fields[answer.Mount][0]
		// A kubelet that has restarted asks for a volume that is mounted already.
		err = run("sh", "-c", `mkdir -p "$0" && { mountpoint -q "$0" || mount -t tmpfs tmpfs "$0"; }`, place)
	} else if answer.Unmount != 0 {
		err = run("umount", fields[answer.Unmount][0])
	}
	return answer.Message, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func run(command ...string) error {
	output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", command, err, output)
	}
	return nil
}
