package controlplane

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/etcd"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/inprocess"
)

const (
	// watchTimeout is the time over which watches are ended, one after the other,
	// when the server stops. A connection stays open as long as its watches.
	watchTimeout = time.Second

	// drainTimeout is how long requests may take to end once the server stops. A
	// client takes up to a second to close its connection.
	drainTimeout = watchTimeout + 2*time.Second

	// settleTimeout is how long a store may take to be encrypted, or to answer at all.
	settleTimeout = 5 * time.Minute

	// hooksTimeout is how long a stop waits for a start that has not finished.
	hooksTimeout = 2 * time.Second

	// stopTimeout is how long a stop may take. What takes longer waits for a store
	// that doesn't answer, and is not waited for.
	stopTimeout = drainTimeout + 2*time.Second
)

// Server is a running control plane.
type Server struct {
	// URL is where clients reach it.
	URL string
	// Kubeconfig is the administrator's kubeconfig file.
	Kubeconfig string
	// CAData are the PEM certificates that verify the server: that of its authority,
	// and those of the authorities whose place this one has taken.
	CAData []byte
	// CAFile and CAKeyFile sign client certificates.
	CAFile, CAKeyFile string
	// ServiceAccountKeyHash identifies the key that signs service-account tokens:
	// the SHA-256 of its public half, in hexadecimal.
	ServiceAccountKeyHash string

	// Authorizer decides about the requests of the server's clients.
	Authorizer authorizer.UnconditionalAuthorizer

	serviceAccountKey string // a file

	served  *servedKinds
	caches  *watchCaches
	handler http.Handler
	paths   *mux.PathRecorderMux
	token   string
	stop    context.CancelFunc
	done    chan struct{}
	err     error
}

// Start runs a control plane until Stop is called. It returns as soon as the
// server takes requests, or when ctx ends before it does; WaitReady waits for its
// ready checks.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	listener, err := listen(o.BindAddress, o.SecurePort)
	if err != nil {
		return nil, err
	}
	if o.Open != nil {
		listener = &openingListener{Listener: listener, open: o.Open, sleep: time.Sleep}
	}
	o.served = &servedKinds{}
	s := &Server{served: o.served, done: make(chan struct{}), Kubeconfig: o.Dir.Path("admin.kubeconfig")}
	s.URL = o.url(listener.Addr().(*net.TCPAddr).Port)
	// Everything below stops in the reverse order of its start, so etcd, which
	// starts first, must outlive the API server: it has a context of its own.
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	started := make(chan error, 1)
	go func() { started <- s.start(ctx, runCtx, o, listener) }()
	select {
	case err = <-started:
	case <-ctx.Done():
		// Wait for the start to end, so that nothing writes to the data directory any
		// more, but not for ever: a start that waits for a store ignores ctx.
		err = ctx.Err()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if <-started == nil {
				_ = s.Stop()
			}
		}()
		select {
		case <-ended:
		case <-time.After(hooksTimeout):
		}
	}
	if err != nil {
		stop()
		_ = listener.Close()
		return nil, explainDiskFull(ctx, err, o.Dir)
	}
	return s, nil
}

// shutdown ends the server. An API server that is stopped while its start hooks
// run makes the whole process exit with a failure, so they get their time first.
func (s *Server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), hooksTimeout)
	defer cancel()
	_ = s.waitOK(ctx, "/livez") // returns at once where the server has ended
	s.stop()
}

// store is where the API server keeps its objects: an etcd in this process, or an
// external one, which this process neither stops nor watches.
type store struct {
	endpoints []string
	raw       *rawStores
	stop      func()
	failed    <-chan error // nil for an external etcd
}

func startStore(ctx context.Context, o Options) (store, error) {
	if len(o.EtcdServers) > 0 {
		return store{endpoints: o.EtcdServers, raw: &rawStores{}, stop: func() {}}, nil
	}
	embedded, err := etcd.Start(ctx, o.Dir.Path("etcd"), o.Dir.Path("run"))
	if err != nil {
		return store{}, err
	}
	raw := &rawStores{member: embedded}
	return store{
		endpoints: []string{embedded.Endpoint}, raw: raw, failed: embedded.Err(),
		stop: func() {
			embedded.Stop()
			raw.stop() // which would wait for a member that has failed
		},
	}, nil
}

// settle has the store encrypted as it is to be.
func (s *store) settle(ctx context.Context, o Options, files certificateFiles) (*sealing, error) {
	if o.Flavour != Generic {
		return nil, nil
	}
	secret, err := os.ReadFile(files.serviceAccountKey)
	if err != nil {
		return nil, fmt.Errorf("read the service-account key: %w", err)
	}
	sealing, err := newSealing(secret, o.EncryptedResources)
	if err != nil {
		return nil, err
	}
	client, err := newStoreClient(o, s.endpoints)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return sealing, sealing.settle(ctx, client, len(o.EtcdServers) > 0, o.ReplaceLostKeys)
}

// meter lets the meter, if there is one, ask the store.
func (s *store) meter(o Options, sealing *sealing) error {
	if o.Meter == nil {
		return nil
	}
	client, err := newStoreClient(o, s.endpoints)
	if err != nil {
		return err
	}
	client.sealing = sealing
	ctx, end := context.WithCancel(context.Background())
	var room sync.WaitGroup
	if len(o.EtcdServers) == 0 { // an external one is its administrator's
		room.Go(func() { client.keepRoom(ctx) })
	}
	stop := s.stop
	s.stop = func() {
		end()
		_ = client.Close()
		room.Wait()
		stop()
	}
	o.Meter.SetStore(client)
	return nil
}

// start starts everything. What it starts runs until ctx ends; startCtx ends only
// the start.
func (s *Server) start(startCtx, ctx context.Context, o Options, listener net.Listener) error {
	before, err := o.Dir.Convert()
	if err != nil {
		return err
	}
	if before != "" {
		logging.FromContext(ctx).Warn("the data directory was written by an older program and has been converted: "+
			"delete the copy of what was before when you are sure that you need not go back, "+
			"as its Secrets are not encrypted",
			"copy", before)
	}
	files, err := s.issueCertificates(ctx, o)
	if err != nil {
		return err
	}
	objects, err := startStore(startCtx, o)
	if err != nil {
		return err
	}
	s.caches = &objects.raw.caches
	sealing, err := objects.settle(startCtx, o, files)
	if err == nil {
		err = objects.meter(o, sealing)
	}
	if err != nil {
		objects.stop()
		return o.explainSilence(err)
	}
	aggregator, err := buildChain(ctx, o, listener, files, objects, sealing)
	if err != nil {
		objects.stop()
		return o.explainSilence(err)
	}
	s.handler, s.Authorizer = aggregator.GenericAPIServer.Handler, aggregator.GenericAPIServer.Authorizer
	s.token = aggregator.GenericAPIServer.LoopbackClientConfig.BearerToken
	aggregator.GenericAPIServer.ShutdownTimeout = drainTimeout
	s.paths = aggregator.GenericAPIServer.Handler.NonGoRestfulMux
	s.paths.Unregister("/metrics")
	s.paths.Handle("/metrics", metricsHandler())
	prepared, err := aggregator.PrepareRun()
	if err != nil {
		objects.stop()
		return fmt.Errorf("prepare the API server: %w", err)
	}
	s.serve(ctx, o, prepared.Run, objects)
	return nil
}

// serve runs the API server in the background until ctx ends or the store fails.
// Then it stops the store, sets s.err and closes s.done.
func (s *Server) serve(ctx context.Context, o Options, run func(context.Context) error, objects store) {
	serverCtx, stopServer := context.WithCancelCause(ctx)
	storeFailed := make(chan struct{})
	go func() {
		if err, ok := <-objects.failed; ok && err != nil {
			close(storeFailed)
			err = fmt.Errorf("the store in %s stopped: %w: start again; "+
				"if that doesn't help, put the data directory back from a backup", o.Dir.Path("etcd"), err)
			stopServer(explainDiskFull(ctx, err, o.Dir))
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- run(serverCtx) }()
	go func() {
		defer close(s.done)
		select {
		case s.err = <-ended:
		case <-serverCtx.Done():
			select {
			case s.err = <-ended:
			case <-storeFailed: // requests under way can't succeed any more
			case <-time.After(stopTimeout):
			}
		}
		objects.stop()
		if cause := context.Cause(serverCtx); s.err == nil && !errors.Is(cause, context.Canceled) {
			s.err = cause
		}
		stopServer(nil)
	}()
}

// WaitReady returns when /readyz says ok, or with the reason why it never will.
func (s *Server) WaitReady(ctx context.Context) error { return s.waitOK(ctx, "/readyz") }

// waitOK returns when the health check at path passes.
func (s *Server) waitOK(ctx context.Context, path string) error {
	client := &http.Client{Transport: inprocess.Transport{Handler: s.handler}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+s.token)
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.done:
			return fmt.Errorf("the API server stopped before it was ready: %w", s.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// HandlePrefix serves a path and everything below it beside the API. Requests
// arrive authenticated, with the user in their context, and after Authorizers
// have let them pass. path ends with a slash.
func (s *Server) HandlePrefix(path string, h http.Handler) { s.paths.UnlistedHandlePrefix(path, h) }

// HandlePath is HandlePrefix for that path alone.
func (s *Server) HandlePath(path string, h http.Handler) { s.paths.UnlistedHandle(path, h) }

// RESTConfig is a client configuration with all rights that reaches the server
// without a socket and without a rate limit. userAgent names the caller in
// logs, metrics and managed fields.
func (s *Server) RESTConfig(userAgent string) *rest.Config {
	return &rest.Config{
		Host:        s.URL,
		BearerToken: s.token,
		UserAgent:   userAgent,
		QPS:         -1,
		Transport:   inprocess.Eager{Transport: inprocess.Transport{Handler: s.handler}},
	}
}

// DeriveKey makes a key of 32 bytes for a purpose, from the key that signs
// service-account tokens. It is the same for all replicas and after each start, and
// nowhere in the store.
func (s *Server) DeriveKey(purpose string) ([]byte, error) {
	secret, err := os.ReadFile(s.serviceAccountKey)
	if err != nil {
		return nil, fmt.Errorf("read the service-account key: %w", err)
	}
	return hkdf.Key(sha256.New, secret, nil, purpose, 32)
}

// Done is closed when the server has stopped and all its state is on the disk.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server, waits until it has, and returns why it stopped when
// that was not because of Stop.
func (s *Server) Stop() error {
	s.shutdown()
	<-s.done
	return s.err
}

// listen takes the port before anything else is done, so that a port in use
// costs nothing.
func listen(address net.IP, port int) (net.Listener, error) {
	hostPort := net.JoinHostPort(address.String(), strconv.Itoa(port))
	l, err := net.Listen("tcp", hostPort)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen on %s: another process uses the port: stop that process, or choose another port with --secure-port", hostPort)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("cannot listen on %s: this machine has no such address: choose one that it has with --bind-address", hostPort)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen on %s: ports below 1024 need root: choose another port with --secure-port", hostPort)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", hostPort, err)
	}
	return l, nil
}

// explainDiskFull adds the remedy to an error that a full disk caused.
func explainDiskFull(ctx context.Context, err error, dir *datadir.Dir) error {
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		logging.FromContext(ctx).Debug("disk full", "err", err)
		return fmt.Errorf("the disk of the data directory %s is full: free some room, or choose another --data-dir", dir.Path())
	case errors.Is(err, syscall.EFBIG):
		logging.FromContext(ctx).Debug("file too large", "err", err)
		return fmt.Errorf("a file in the data directory %s may grow no more: raise the limit on the size of files (ulimit -f), and start again", dir.Path())
	}
	return err
}

// metricsHandler serves the metrics of the API server together with those of
// controllers in this process. Where both have a metric of the same name, such
// as those of the Go runtime, the API server's counts.
func metricsHandler() http.Handler {
	gather := func() ([]*dto.MetricFamily, error) {
		server, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			return server, err
		}
		known := map[string]bool{}
		for _, f := range server {
			known[f.GetName()] = true
		}
		controllers, err := controllermetrics.Registry.Gather()
		for _, f := range controllers {
			if !known[f.GetName()] {
				server = append(server, f)
			}
		}
		slices.SortFunc(server, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
		return server, err
	}
	return promhttp.HandlerFor(prometheus.GathererFunc(gather), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
