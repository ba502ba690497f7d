package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
)

// proxyVariable tells the credential plugin, in the kubeconfig of a proxy, how clusters are
// reached. It holds a password, which other users of the machine could see in an argument.
const proxyVariable = "MUSTER_ACCESS_PROXY"

func newAccessProxyCommand() *cobra.Command {
	var f accessFlags
	p := proxyFlags{}
	cmd := &cobra.Command{
		Use:   "proxy --cloud NAMESPACE/NAME [-- COMMAND [ARG...]]",
		Short: "Reach the clusters of a logical cloud through the hub",
		Long: `Reaches clusters that can't be reached otherwise, as behind a firewall: it listens on
this machine, and carries connections through the hub to the agents of the clusters,
which take them to their API servers. kubectl talks TLS with the cluster's API server
through it, and the hub can't read what it carries.

It writes a kubeconfig as "muster access kubeconfig" does, whose clusters are reached by
this proxy, and runs until it is interrupted; or it runs a command with that kubeconfig,
and ends with it. The proxy asks for a password, which is in the kubeconfig. Other
programs use it by HTTPS_PROXY, whose value is printed with --print-proxy.

The agents of the clusters have to run with --user-access --tunnels, and you need the
right to the verb tunnel on accessrequests, as by the ClusterRole muster:access-tunnel.`,
		Example: `  muster access proxy --cloud team-a/prod --output prod.kubeconfig
  muster access proxy --cloud team-a/prod -- kubectl get pods
  muster access proxy --cloud team-a/prod --cluster paris -- kubectl logs -f deploy/shop`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if at := cmd.ArgsLenAtDash(); at != 0 && len(args) > 0 {
				return fmt.Errorf("%q is no flag: write the command to run after --", args[0])
			}
			if err := p.check(args); err != nil {
				return err
			}
			s, err := f.session(cmd)
			if err != nil {
				return err
			}
			return p.run(cmd, s, args)
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(
		&p.kubeconfig.clusters,
		"cluster",
		nil,
		"only these clusters (default all that the cloud's placements select)",
	)
	flags.StringVarP(
		&p.kubeconfig.output,
		"output",
		"o",
		"",
		"file that gets the kubeconfig, for as long as the proxy runs (default a temporary one)",
	)
	flags.BoolVar(&p.kubeconfig.force, "force", false, "replace an existing file")
	flags.StringVar(
		&p.address,
		"address",
		"127.0.0.1:0",
		"address to listen on, of this machine; port 0 takes a free one",
	)
	flags.BoolVar(&p.printProxy, "print-proxy", false, "print the proxy's URL for HTTPS_PROXY, with its password")
	return cmd
}

type proxyFlags struct {
	kubeconfig kubeconfigFlags
	address    string
	printProxy bool
}

func (p *proxyFlags) check(command []string) error {
	host, _, err := net.SplitHostPort(p.address)
	if err != nil {
		return fmt.Errorf("--address %q: write an address and a port, as 127.0.0.1:8443", p.address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf(
			"--address %q: the proxy takes passwords in the clear, so it listens on this machine alone: "+
				"use 127.0.0.1, [::1] or localhost",
			p.address,
		)
	}
	if p.kubeconfig.output == "-" {
		return errors.New("--output -: the kubeconfig is of use only while the proxy runs: name a file")
	}
	if p.printProxy && len(command) > 0 {
		return errors.New("--print-proxy goes without a command: name one of them")
	}
	return p.kubeconfig.fresh()
}

// proxy takes connections on this machine to clusters.
type proxy struct {
	session  *accessSession
	password string
	ctx      context.Context //nolint:containedctx // tunnels live longer than the connection that opens them
	clusters map[string]*proxied
	open     sync.WaitGroup // tunnels
}

// proxied is one cluster behind the proxy.
type proxied struct {
	name    string
	address string // of its API server
	// request names the access request that the next tunnel is opened by. It costs a request
	// where the hub has made the keys.
	request func(context.Context) (string, error)
	hubMade bool

	mu     sync.Mutex
	client *tunnel.Client
	opened string // the access request that it was opened by
}

func (p *proxyFlags) run(cmd *cobra.Command, s *accessSession, command []string) error {
	ctx := cmd.Context()
	asking, cancel := context.WithTimeout(ctx, s.flags.timeout)
	defer cancel()
	info, err := s.info(asking)
	if err != nil {
		return err
	}
	if !hubinfo.Has(info, hubinfo.Tunnel) {
		return fmt.Errorf(
			"the hub %s carries no tunnels: it needs the feature gate Tunnel, which is on by default in newer hubs",
			s.config.Host,
		)
	}
	cloud, err := s.cloud(asking)
	if err != nil {
		return err
	}
	s.unreachable = true
	var config *clientcmdapi.Config
	made := cloud != nil && cloud.Spec.Access.KeyPolicy == v1alpha1.KeyHubMade
	if made {
		config, err = s.hubMadeConfig(asking, p.kubeconfig.clusters)
	} else {
		config, err = p.kubeconfig.own(asking, s, cloud)
	}
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("--address %s: %w: choose another port, or 0 for a free one", p.address, err)
	}
	defer listener.Close()
	ctx, end := context.WithCancel(ctx)
	it := &proxy{session: s, password: rand.Text(), ctx: ctx, clusters: map[string]*proxied{}}
	defer it.open.Wait() // which ends them
	defer end()
	if err := it.lead(config, listener.Addr(), made); err != nil {
		return err
	}
	server := &http.Server{Handler: it, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	return p.serve(ctx, cmd, it, config, listener.Addr(), command)
}

// serve writes the kubeconfig, and runs the command, or waits for the end.
func (p *proxyFlags) serve(
	ctx context.Context,
	cmd *cobra.Command,
	it *proxy,
	config *clientcmdapi.Config,
	at net.Addr,
	command []string,
) error {
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	path := p.kubeconfig.output
	if path == "" {
		dir, err := os.MkdirTemp("", "muster-access-")
		if err != nil {
			return fmt.Errorf("make a folder for the kubeconfig: %w", err)
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "kubeconfig")
	}
	if err := atomicfile.Write(path, content, 0o600); err != nil {
		return err
	}
	defer os.Remove(path) // it leads nowhere without the proxy
	if len(command) > 0 {
		return runWith(ctx, cmd, path, command)
	}
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "listening on %s; the kubeconfig is %s\n", at, path)
	if p.printProxy {
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "export HTTPS_PROXY=%s NO_PROXY=%s\n",
			it.url(anyCluster, at), it.hubHost())
	}
	<-ctx.Done()
	return nil
}

// runWith runs a command with a kubeconfig, and ends with its status.
func runWith(ctx context.Context, cmd *cobra.Command, kubeconfig string, command []string) error {
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	// The latter is what Terraform's providers for Kubernetes and Helm read.
	run.Env = append(os.Environ(), clientcmd.RecommendedConfigPathEnvVar+"="+kubeconfig, "KUBE_CONFIG_PATH="+kubeconfig)
	run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	err := run.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return cli.ExitError(max(exit.ExitCode(), 1))
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", command[0], err)
	}
	return nil
}

// anyCluster is the user's name by which a program reaches any of the clusters, by the
// address of its API server.
const anyCluster = "muster"

func (x *proxy) url(of string, at net.Addr) string {
	return (&url.URL{Scheme: "http", User: url.UserPassword(of, x.password), Host: at.String()}).String()
}

// hubHost is the hub, which credential plugins have to reach without the proxy.
func (x *proxy) hubHost() string {
	base, _, err := rest.DefaultServerUrlFor(x.session.config)
	if err != nil {
		return ""
	}
	return base.Hostname()
}

// lead makes a kubeconfig lead through the proxy.
func (x *proxy) lead(config *clientcmdapi.Config, at net.Addr, hubMade bool) error {
	for name, c := range config.Clusters {
		server, err := url.Parse(c.Server)
		if err != nil {
			return fmt.Errorf("cluster %q: its address %q: %w", name, c.Server, err)
		}
		port := server.Port()
		if port == "" {
			port = "443"
		}
		c.ProxyURL = x.url(name, at)
		p := &proxied{name: name, address: net.JoinHostPort(server.Hostname(), port), hubMade: hubMade}
		p.request = func(ctx context.Context) (string, error) {
			if hubMade {
				return x.session.issuedRequest(ctx, name)
			}
			kept, err := x.session.cached(ctx, name)
			return kept.Request, err
		}
		x.clusters[name] = p
	}
	for _, context := range config.Contexts {
		if auth := config.AuthInfos[context.AuthInfo]; auth != nil && auth.Exec != nil {
			auth.Exec.Env = append(
				auth.Exec.Env,
				clientcmdapi.ExecEnvVar{Name: proxyVariable, Value: x.url(context.Cluster, at)},
			)
		}
	}
	return nil
}

// ServeHTTP takes the requests of HTTP proxies for a connection (RFC 9110, CONNECT).
func (x *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := x.authenticate(r)
	switch {
	case r.Method != http.MethodConnect:
		http.Error(
			w,
			"muster access proxy takes connections to clusters (CONNECT), and nothing else",
			http.StatusMethodNotAllowed,
		)
		return
	case !ok:
		w.Header().Set("Proxy-Authenticate", `Basic realm="muster access proxy"`)
		http.Error(w, "the password of this proxy is in its kubeconfig", http.StatusProxyAuthRequired)
		return
	}
	local, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = local.Close() }()
	_ = local.SetDeadline(time.Time{})
	to, status, err := x.connect(name, r.Host)
	if err != nil {
		// Clients show the reason phrase, and nothing else.
		_, _ = fmt.Fprintf(local, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\n\r\n", status, text.Line(err.Error()))
		return
	}
	if _, err := fmt.Fprint(local, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = to.Close()
		return
	}
	if n := buffered.Reader.Buffered(); n > 0 { // sent before the answer
		early, _ := buffered.Peek(n)
		if _, err := to.Write(early); err != nil {
			_ = to.Close()
			return
		}
	}
	tunnel.Join(local, to)
}

// authenticate returns the user's name of a request with the password.
func (x *proxy) authenticate(r *http.Request) (name string, ok bool) {
	scheme, encoded, _ := strings.Cut(r.Header.Get("Proxy-Authorization"), " ")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	name, password, found := strings.Cut(string(decoded), ":")
	return name, strings.EqualFold(scheme, "Basic") && err == nil && found &&
		subtle.ConstantTimeCompare([]byte(password), []byte(x.password)) == 1
}

// connect opens a connection to the API server of a cluster, which has the address.
func (x *proxy) connect(name, address string) (net.Conn, int, error) {
	var at []*proxied
	for _, c := range x.clusters {
		if c.address == address && (name == anyCluster || name == c.name) {
			at = append(at, c)
		}
	}
	switch {
	case len(at) == 0:
		return nil, http.StatusForbidden, fmt.Errorf(
			"this proxy does not lead to %s, but to the API servers of the clusters of %s",
			address,
			x.session.flags.cloud,
		)
	case len(at) > 1:
		return nil, http.StatusForbidden, fmt.Errorf(
			"%d clusters have the address %s: use the kubeconfig, which distinguishes them",
			len(at),
			address,
		)
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.session.flags.timeout)
	defer cancel()
	conn, err := at[0].open(ctx, x)
	if err != nil {
		return nil, http.StatusBadGateway, fmt.Errorf("cluster %s: %w", at[0].name, err)
	}
	return conn, http.StatusOK, nil
}

// open opens a connection through the cluster's tunnel, and the tunnel if there is none.
func (c *proxied) open(ctx context.Context, x *proxy) (net.Conn, error) {
	t, err := c.tunnel(ctx, x)
	if err != nil {
		return nil, err
	}
	return t.Open(ctx)
}

func (c *proxied) tunnel(ctx context.Context, x *proxy) (*tunnel.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isOpen := c.client != nil && c.client.Err() == nil
	if isOpen && c.hubMade {
		return c.client, nil
	}
	s := x.session
	request, err := c.request(ctx)
	switch {
	case isOpen && (err != nil || request == c.opened):
		return c.client, nil
	case err != nil:
		return nil, err
	}
	// Where access was renewed, the connections in the tunnel before go on until that ends.
	hub, err := tunnel.At(s.config, tunnel.Path("accessrequests", s.flags.namespace, request), tunnel.NewID())
	if err != nil {
		return nil, err
	}
	opened, err := tunnel.Connect(ctx, hub)
	if err != nil {
		if strings.Contains(err.Error(), "cannot "+muster.VerbTunnel) {
			err = fmt.Errorf("%w: an administrator of the hub gives the right "+
				"by the ClusterRole muster:access-tunnel", err)
		}
		return nil, fmt.Errorf("open a tunnel: %w", err)
	}
	c.client, c.opened = opened, request
	x.open.Go(func() {
		select {
		case <-opened.Done():
			_, _ = fmt.Fprintf(s.progress, "the tunnel to the cluster %s has ended: %v\n", c.name, opened.Err())
		case <-x.ctx.Done():
		}
		opened.Close()
	})
	return opened, nil
}

// hubMadeConfig is the kubeconfig that the hub has made, with some of its clusters; all if
// none is named.
func (s *accessSession) hubMadeConfig(ctx context.Context, clusters []string) (*clientcmdapi.Config, error) {
	content, err := s.hubMade(ctx, true)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig that the hub has made: %w", err)
	}
	for _, name := range clusters {
		if config.Clusters[name] == nil {
			return nil, fmt.Errorf("--cluster %s: the logical cloud %q has no such cluster", name, s.flags.cloud)
		}
	}
	for name, c := range config.Contexts {
		if len(clusters) > 0 && !slices.Contains(clusters, c.Cluster) {
			delete(config.Contexts, name)
			delete(config.Clusters, c.Cluster)
			if config.CurrentContext == name {
				config.CurrentContext = ""
			}
		}
	}
	for name := range config.Contexts {
		if config.CurrentContext == "" {
			config.CurrentContext = name
		}
	}
	return config, nil
}

// issuedRequest is the newest access request by which the hub has given the user access to
// a cluster.
func (s *accessSession) issuedRequest(ctx context.Context, cluster string) (string, error) {
	user, err := s.user(ctx)
	if err != nil {
		return "", err
	}
	list := &v1alpha1.AccessRequestList{}
	if err := s.client.List(ctx, list, client.InNamespace(s.flags.namespace)); err != nil {
		return "", fmt.Errorf("list the access requests: %w", err)
	}
	var newest *v1alpha1.AccessRequest
	for i := range list.Items {
		r := &list.Items[i]
		state, _ := useraccess.Progress(r, time.Now())
		if r.Spec.LogicalCloud != s.flags.cloudName || r.Spec.ManagedCluster != cluster || r.Spec.User != user ||
			state != useraccess.Issued {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&r.CreationTimestamp) {
			newest = r
		}
	}
	if newest == nil {
		return "", fmt.Errorf(
			"the logical cloud %q gives %q no access to the cluster %s now",
			s.flags.cloud,
			user,
			cluster,
		)
	}
	return newest.Name, nil
}
