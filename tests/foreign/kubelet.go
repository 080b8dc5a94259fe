// A kubelet as far as plugin registration goes, on the libraries that the kubelet itself is built on:
// fsnotify sees the directory as the kubelet sees it, and grpc-go dials a registration socket as the
// kubelet dials it, which puts the socket's raw path into :authority.
//
// Each event is one line of JSON on standard output.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
)

const (
	dialTimeout     = 10 * time.Second
	infoTimeout     = 1 * time.Second
	nodeInfoTimeout = 2 * time.Minute
	notifyTimeout   = 5 * time.Second
	reconcilePeriod = 1 * time.Second
	firstBackoff    = 500 * time.Millisecond
	longestBackoff  = 2*time.Minute + 2*time.Second
)

type event struct {
	Event    string `json:"event"`
	Name     string `json:"name,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	NodeID   string `json:"node_id,omitempty"`
	Path     string `json:"path,omitempty"`
	Error    string `json:"error,omitempty"`
}

var output = json.NewEncoder(os.Stdout)

func report(e event) {
	if err := output.Encode(e); err != nil {
		log.Fatal(err)
	}
}

// plugin is what is known about one path in the registry directory. The kubelet tells "replaced" from
// "still there" by a stamp that each Create event renews.
type plugin struct {
	desired    int // stamp of the last Create; 0 when the path is gone
	registered int // stamp that was registered; 0 when it is not
	name       string
	busy       bool
	backoff    time.Duration
	notBefore  time.Time
}

// outcome is how one try at a registration ended.
type outcome struct {
	path  string
	stamp int
	info  event
	// identified: GetInfo was answered and valid. Before 1.36 the kubelet counts the plugin as registered
	// from there on and does not try again, whatever comes after.
	identified bool
	err        error
}

type kubelet struct {
	registry    string
	followLinks bool
	once        bool
	watcher     *fsnotify.Watcher
	plugins     map[string]*plugin
	stamp       int
	outcomes    chan outcome
}

func main() {
	log.SetFlags(log.Lmicroseconds)
	root := flag.String("root", "", "the kubelet's root directory")
	walk := flag.String("walk", "new", `what the walk at the start does with links to sockets: "old" ignores them (before 1.25), "new" registers them`)
	delay := flag.Duration("watch-after", 0, "start the plugin watcher this long after pod-resources/kubelet.sock, as a kubelet that waits for its container runtime does")
	once := flag.Bool("once", false, "exit 0 after the first registration")
	timeout := flag.Duration("timeout", 0, "exit 1 after this long; 0 is never")
	flag.Parse()
	if *root == "" || flag.NArg() > 0 || (*walk != "old" && *walk != "new") {
		flag.Usage()
		os.Exit(64)
	}
	if *timeout > 0 {
		time.AfterFunc(*timeout, func() { log.Fatalf("still running after %s", *timeout) })
	}

	if err := servePodResources(filepath.Join(*root, "pod-resources")); err != nil {
		log.Fatal(err)
	}
	time.Sleep(*delay)

	k := &kubelet{
		registry:    filepath.Join(*root, "plugins_registry"),
		followLinks: *walk == "new",
		once:        *once,
		plugins:     map[string]*plugin{},
		outcomes:    make(chan outcome),
	}
	if err := k.run(); err != nil {
		log.Fatal(err)
	}
}

// servePodResources makes the socket anew, as each start of a kubelet does.
func servePodResources(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	path := filepath.Join(dir, "kubelet.sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go func() { log.Fatal(grpc.NewServer().Serve(listener)) }()
	return nil
}

func (k *kubelet) run() error {
	if err := os.MkdirAll(k.registry, 0o750); err != nil {
		return err
	}
	var err error
	if k.watcher, err = fsnotify.NewWatcher(); err != nil {
		return err
	}
	if err := k.traverse(k.registry); err != nil {
		return err
	}
	report(event{Event: "watching", Path: k.registry})

	tick := time.NewTicker(reconcilePeriod)
	for {
		select {
		case e := <-k.watcher.Events:
			switch {
			case e.Op&fsnotify.Create != 0:
				k.created(e.Name)
			case e.Op&fsnotify.Remove != 0:
				k.removed(e.Name)
			}
		case err := <-k.watcher.Errors:
			log.Printf("fsnotify: %v", err)
		case o := <-k.outcomes:
			k.finished(o)
		case <-tick.C:
			k.reconcile()
		}
	}
}

// traverse watches a directory and takes in what it already holds. filepath.Walk reports a link as a
// link, which is why kubelets that only ask for the socket bit of its mode pass links over.
func (k *kubelet) traverse(dir string) error {
	if err := k.watcher.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	return filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		switch {
		case err != nil:
			log.Printf("walk %s: %v", path, err)
		case path == dir:
		case info.IsDir():
			if err := k.watcher.Add(path); err != nil {
				log.Printf("watch %s: %v", path, err)
			}
		case info.Mode()&os.ModeSocket != 0, k.followLinks && isSocket(path):
			k.created(path)
		default:
			log.Printf("walk passes over %s (%s)", path, info.Mode())
		}
		return nil
	})
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

func (k *kubelet) created(path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		// A link whose target is not there yet ends here: nothing looks at it again.
		log.Printf("created, but: %v", err)
	case strings.HasPrefix(info.Name(), "."):
	case info.IsDir():
		if err := k.traverse(path); err != nil {
			log.Print(err)
		}
	case info.Mode()&os.ModeSocket != 0:
		k.stamp++
		if k.plugins[path] == nil {
			k.plugins[path] = &plugin{}
		}
		k.plugins[path].desired = k.stamp
	}
}

func (k *kubelet) removed(path string) {
	if p := k.plugins[path]; p != nil {
		p.desired = 0
	}
}

// reconcile does at most one thing to a path at a time, so a replaced link is de-registered in one
// round and registered in the next.
func (k *kubelet) reconcile() {
	for path, p := range k.plugins {
		switch {
		case p.busy || p.desired == p.registered:
		case p.registered != 0:
			p.registered = 0
			if p.name != "" {
				report(event{Event: "deregistered", Name: p.name, Path: path})
				p.name = ""
			}
		case time.Now().After(p.notBefore):
			p.busy = true
			go func(path string, stamp int) {
				o := register(path)
				o.path, o.stamp = path, stamp
				k.outcomes <- o
			}(path, p.desired)
		}
	}
}

func (k *kubelet) finished(o outcome) {
	p := k.plugins[o.path]
	p.busy = false
	if o.identified {
		p.registered = o.stamp
		p.backoff = 0
	} else {
		// The back-off belongs to the path and outlives the link that earned it.
		p.backoff *= 2
		if p.backoff < firstBackoff {
			p.backoff = firstBackoff
		} else if p.backoff > longestBackoff {
			p.backoff = longestBackoff
		}
		p.notBefore = time.Now().Add(p.backoff)
	}
	o.info.Path = o.path
	if o.err != nil {
		o.info.Event, o.info.Error = "failed", o.err.Error()
		report(o.info)
		return
	}
	p.name = o.info.Name
	o.info.Event = "registered"
	report(o.info)
	if k.once {
		os.Exit(0)
	}
}

// dial sets no authority: that is the kubelet's way, and what makes the path the authority.
func dial(path string) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	connection, err := grpc.DialContext(ctx, path, grpc.WithInsecure(), grpc.WithBlock(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", address)
		}))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", path, err)
	}
	return connection, nil
}

func call(connection *grpc.ClientConn, method string, request message, timeout time.Duration) (map[int][]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var reply message
	if err := connection.Invoke(ctx, method, &request, &reply, grpc.ForceCodec(raw{})); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	fields, err := reply.strings()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return fields, nil
}

func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// register is one try: a single connection to the registration socket from GetInfo to Notify.
func register(path string) (o outcome) {
	connection, err := dial(path)
	if err != nil {
		o.err = err
		return o
	}
	defer connection.Close()

	info, err := call(connection, "/pluginregistration.Registration/GetInfo", nil, infoTimeout)
	if err != nil {
		o.err = err
		return o
	}
	o.info.Name, o.info.Endpoint = last(info[2]), last(info[3])
	if kind := last(info[1]); kind != "CSIPlugin" {
		o.err = fmt.Errorf("plugin type %q", kind)
	} else if versions := info[4]; len(versions) != 1 || versions[0] != "1.0.0" {
		o.err = fmt.Errorf("supported versions %q", versions)
	} else {
		o.identified = true
		o.info.NodeID, o.err = nodeID(o.info.Endpoint, path)
	}

	var status message
	status.putBool(1, o.err == nil)
	if o.err != nil {
		status.putString(2, o.err.Error())
	}
	if _, err := call(connection, "/pluginregistration.Registration/NotifyRegistrationStatus", status, notifyTimeout); err != nil && o.err == nil {
		o.err = err
	}
	return o
}

func nodeID(endpoint, registration string) (string, error) {
	if endpoint == "" {
		endpoint = registration
	}
	connection, err := dial(endpoint)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	info, err := call(connection, "/csi.v1.Node/NodeGetInfo", nil, nodeInfoTimeout)
	if err != nil {
		return "", err
	}
	id := last(info[1])
	if id == "" {
		return "", errors.New("the driver has no node id")
	}
	return id, nil
}
