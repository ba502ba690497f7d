package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/etcd"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/inprocess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
)

const (
	servingLifetime = 90 * 24 * time.Hour
	adminLifetime   = 365 * 24 * time.Hour

	// drainTimeout is how long requests may take to end after the server was
	// told to stop; watches are cut off then.
	drainTimeout = 2 * time.Second

	// hooksTimeout is how long a stop waits for a start that is under way.
	hooksTimeout = 2 * time.Second
)

// Server is a running control plane.
type Server struct {
	// URL is where clients reach it.
	URL string
	// Kubeconfig is the administrator's kubeconfig file.
	Kubeconfig string
	// CAData is the PEM certificate that verifies the server.
	CAData []byte
	// CAFile and CAKeyFile sign client certificates.
	CAFile, CAKeyFile string

	serviceAccountKey string // a file

	handler http.Handler
	paths   *mux.PathRecorderMux
	token   string
	stop    context.CancelFunc
	done    chan struct{}
	err     error
}

// Start runs a control plane until ctx ends or Stop is called. It returns as
// soon as the server takes requests; WaitReady waits for its ready checks.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	listener, err := listen(o.BindAddress, o.SecurePort)
	if err != nil {
		return nil, err
	}
	s := &Server{done: make(chan struct{}), Kubeconfig: o.Dir.Path("admin.kubeconfig")}
	s.URL = o.url(listener.Addr().(*net.TCPAddr).Port)
	// Everything below stops in the reverse order of its start, so etcd, which
	// starts first, must outlive the API server: it has a context of its own.
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if err := s.start(runCtx, o, listener); err != nil {
		stop()
		_ = listener.Close()
		return nil, explainDiskFull(err, o.Dir)
	}
	context.AfterFunc(ctx, s.shutdown)
	return s, nil
}

// shutdown ends the server. An API server that is stopped while its start hooks
// run makes the whole process exit with a failure, so they get their time first.
func (s *Server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), hooksTimeout)
	defer cancel()
	_ = s.waitOK(ctx, "/livez")
	s.stop()
}

func (s *Server) start(ctx context.Context, o Options, listener net.Listener) error {
	files, err := s.issueCertificates(ctx, o)
	if err != nil {
		return err
	}
	endpoints := o.EtcdServers
	stopEtcd := func() {}
	etcdErr := (<-chan error)(nil)
	if len(endpoints) == 0 {
		store, err := etcd.Start(ctx, o.Dir.Path("etcd"), o.Dir.Path("run"))
		if err != nil {
			return err
		}
		endpoints, stopEtcd, etcdErr = []string{store.Endpoint}, store.Stop, store.Err()
	}
	aggregator, err := buildChain(ctx, o, listener, files, endpoints)
	if err != nil {
		stopEtcd()
		return err
	}
	s.handler = aggregator.GenericAPIServer.Handler
	s.token = aggregator.GenericAPIServer.LoopbackClientConfig.BearerToken
	aggregator.GenericAPIServer.ShutdownTimeout = drainTimeout
	s.paths = aggregator.GenericAPIServer.Handler.NonGoRestfulMux
	s.paths.Unregister("/metrics")
	s.paths.Handle("/metrics", metricsHandler())
	prepared, err := aggregator.PrepareRun()
	if err != nil {
		stopEtcd()
		return fmt.Errorf("prepare the API server: %w", err)
	}
	serverCtx, stopServer := context.WithCancelCause(ctx)
	go func() {
		if err, ok := <-etcdErr; ok && err != nil {
			stopServer(fmt.Errorf("etcd stopped: %w", err))
		}
	}()
	go func() {
		defer close(s.done)
		err := prepared.Run(serverCtx)
		stopEtcd()
		if cause := context.Cause(serverCtx); err == nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		s.err = err
		stopServer(nil)
	}()
	return nil
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

// Done is closed when the server has stopped and all its state is on the disk.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server, waits until it has, and returns why it stopped when
// that was not because of Stop.
func (s *Server) Stop() error {
	s.shutdown()
	<-s.done
	return s.err
}

// certificateFiles are the files that the API server reads.
type certificateFiles struct {
	caCert, servingCert, servingKey, serviceAccountKey string
}

// issueCertificates makes what is missing and re-issues what is short-lived,
// now and again before it ends.
func (s *Server) issueCertificates(ctx context.Context, o Options) (certificateFiles, error) {
	files := certificateFiles{
		servingCert:       o.Dir.Path("pki", "serving.crt"),
		servingKey:        o.Dir.Path("pki", "serving.key"),
		serviceAccountKey: o.Dir.Path("pki", "service-account.key"),
	}
	if err := os.MkdirAll(o.Dir.Path("pki"), 0o700); err != nil {
		return files, fmt.Errorf("make the folder for certificates: %w", err)
	}
	clk := clock.RealClock{}
	ca, err := pki.LoadOrCreateAuthority(o.Dir.Path("pki"), o.Name+"-ca", clk.Now())
	if err != nil {
		return files, err
	}
	files.caCert = ca.CertFile
	s.CAData, s.CAFile, s.CAKeyFile = ca.CertPEM, ca.CertFile, ca.KeyFile
	s.serviceAccountKey = files.serviceAccountKey
	if err := pki.LoadOrCreateKey(files.serviceAccountKey); err != nil {
		return files, err
	}
	issueServing := func(now time.Time) error {
		cert, key, err := ca.Issue(pki.Request{CommonName: o.Name, Hosts: o.servingHosts(), Lifetime: servingLifetime}, now)
		if err != nil {
			return err
		}
		// The server reloads the pair when either file changes and keeps the
		// old pair while the two do not fit.
		if err := datadir.WriteFile(files.servingKey, key, 0o600); err != nil {
			return err
		}
		return datadir.WriteFile(files.servingCert, cert, 0o644)
	}
	issueAdmin := func(now time.Time) error {
		cert, key, err := ca.Issue(pki.Request{CommonName: "muster-admin", Organizations: []string{"system:masters"}, Lifetime: adminLifetime}, now)
		if err != nil {
			return err
		}
		content, err := kubeconfig.Config{Cluster: o.Name, User: "admin", Server: s.URL, CAData: ca.CertPEM, CertData: cert, KeyData: key}.YAML()
		if err != nil {
			return err
		}
		return datadir.WriteFile(s.Kubeconfig, content, 0o600)
	}
	for what, c := range map[string]struct {
		issue    func(time.Time) error
		lifetime time.Duration
	}{"serving": {issueServing, servingLifetime}, "admin": {issueAdmin, adminLifetime}} {
		if err := c.issue(clk.Now()); err != nil {
			return files, fmt.Errorf("issue the %s certificate: %w", what, err)
		}
		go pki.Rotate(ctx, clk, c.lifetime, what, c.issue)
	}
	return files, nil
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
func explainDiskFull(err error, dir *datadir.Dir) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		slog.Debug("disk full", "err", err)
		return fmt.Errorf("the disk of the data directory %s is full: free some room, or choose another --data-dir", dir.Path())
	}
	return err
}
