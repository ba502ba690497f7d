// Package controlplane runs a Kubernetes API server, with its store and the
// controllers that a control plane cannot do without, inside this process.
//
// It comes in two flavours. Generic serves what a fleet hub needs: custom
// resources, RBAC, namespaces, secrets, config maps, service accounts,
// certificate signing requests, leases, events and admission policies, and no
// pods or nodes. Full serves the ordinary APIs of a cluster. Both are
// Kubernetes' own code; what is ours is how they are started: own certificates,
// own etcd, and a start that takes a second and not four.
package controlplane

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// Flavour is which APIs a control plane serves.
type Flavour int

const (
	// Generic is a control plane without pods, nodes and workloads.
	Generic Flavour = iota
	// Full is the API of an ordinary cluster.
	Full
)

// Options say what control plane to run.
type Options struct {
	// Name is what certificates and logs call the server, such as "muster-hub".
	Name string
	// Flavour is which APIs are served.
	Flavour Flavour
	// Dir keeps the server's state. It stays open after the server has stopped;
	// closing it is the caller's.
	Dir *datadir.Dir

	// BindAddress is the address to listen on, 127.0.0.1 by default.
	BindAddress net.IP
	// SecurePort is the port to listen on; 0 takes a free one.
	SecurePort int
	// ExternalURL is where others reach the server, when that is not the
	// address that it listens on. Its host becomes part of the serving
	// certificate, and the whole part of every kubeconfig that is handed out.
	ExternalURL string
	// AdditionalExternalURLs are further URLs of the server. Their hosts become part of
	// the serving certificate.
	AdditionalExternalURLs []string
	// NamedCertificates are served to clients that ask for one of their names.
	// Others get the server's own.
	NamedCertificates []NamedCertificate

	// EtcdServers are the URLs of an external etcd cluster. When there are none
	// an etcd runs in this process, with its data below Dir.
	EtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile are for TLS to EtcdServers.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// ReplicaKeyFile, if set, names a file with the secret by which the replicas on
	// EtcdServers share their certificate authority and service-account key, sealed in
	// etcd. Without it each needs the same files below Dir.
	ReplicaKeyFile string

	// EncryptedResources are the resources that the store of a Generic control plane keeps
	// encrypted, under a key that is made of the service-account key. What it has of others
	// is decrypted at the start, and what it has of these encrypted.
	EncryptedResources []schema.GroupResource

	// ReplaceLostKeys makes new keys where those are missing that the store was
	// made with, and deletes what the store has encrypted with the old ones. Without it
	// that is a *LostKeysError or ErrOtherSealingKey.
	ReplaceLostKeys bool

	// Profiling serves profiles of the process at /debug/pprof/, to those who may read
	// that path.
	Profiling bool

	// Authentication says who else knows the server's users.
	Authentication Authentication
	// Audit says what is noted of users' requests; nothing by default.
	Audit Audit
	// TracingConfigFile is a TracingConfiguration of apiserver.config.k8s.io, which says
	// where spans of requests go; without it there are none.
	TracingConfigFile string
	// MinTLSVersion is the oldest version of TLS that clients may use, as VersionTLS12; that
	// is VersionTLS13 by default.
	MinTLSVersion string

	// FirstAuthorizers are asked in this order before RBAC and before the rights of
	// administrators, which both count only where these have no opinion.
	FirstAuthorizers []extension.Authorizer
	// Authorizers are asked in this order after RBAC, when that has no opinion.
	Authorizers []extension.Authorizer
	// FlowOf, if set, is whose requests wait for each other, so that they don't
	// slow down those of others. Without it only their sum is limited.
	FlowOf func(user.Info) extension.Flow
	// Meter, if set, decides whether what users write is stored.
	Meter extension.Meter
	// Front, if set, is put in front of everything, authentication included.
	Front func(http.Handler) http.Handler
	// Guard, if set, is put in front of what carries out requests that were
	// authorized.
	Guard func(http.Handler) http.Handler
	// Verb, if set, gives requests verbs that Kubernetes doesn't have. It may change what it
	// is given, before anybody is asked whether the request is allowed.
	Verb func(*request.RequestInfo)
	// LongRunning are the verbs, beside Kubernetes' own, of requests that may last.
	LongRunning []string
	// SelectedBy names a label of built-in kinds by whose value clients list and watch their
	// objects. A request for one value costs nothing for objects with others. Only a Generic
	// control plane uses it.
	SelectedBy map[schema.GroupResource]string
	// RenewalsInMemory, if set, selects leases whose renewals are mostly kept in memory; see
	// the package renewals. Only a Generic control plane with an etcd of its own does so.
	RenewalsInMemory func(namespace, name string) bool
	// RightsChanged, if set, is called when roles or their bindings have changed, and must
	// not block. Only a Generic control plane calls it.
	RightsChanged func()
	// AdmissionPlugins run, in this order, before Kubernetes' own webhooks and policies.
	AdmissionPlugins []extension.AdmissionPlugin
	// Conversions convert custom resources between their versions.
	Conversions []Conversion
	// FirstStatuses are the statuses that custom resources have from their creation on.
	FirstStatuses []FirstStatus
	// Clock decides when client certificates have expired, and when the
	// administrator's is renewed; the real one by default.
	Clock clock.Clock
	// ReadyChecks must pass before /readyz does.
	ReadyChecks []healthz.HealthChecker
	// Open reports whether the server takes requests of others than this process.
	// Before, these get 503 and are asked to come back in a second, which clients
	// do, and which is better than a refusal by rules that are not all there yet.
	// Health checks are answered at any time. Connections get their turn one after the
	// other. nil is open from the start.
	Open func() bool

	served *servedKinds // the kinds that the server serves, for its ListerWatcher
}

// NamedCertificate is a serving certificate and its key, which are files that are
// read again when they change.
type NamedCertificate struct {
	CertFile, KeyFile string
	// Names are the DNS names to serve it for; those in the certificate by default.
	Names []string
}

func (o *Options) complete() error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.BindAddress == nil {
		o.BindAddress = net.IPv4(127, 0, 0, 1)
	}
	if o.MinTLSVersion == "" {
		o.MinTLSVersion = "VersionTLS13"
	}
	if o.MinTLSVersion != "VersionTLS12" && o.MinTLSVersion != "VersionTLS13" {
		return fmt.Errorf("--tls-min-version %q is not one that is safe: use VersionTLS12 or VersionTLS13",
			o.MinTLSVersion)
	}
	if o.TracingConfigFile != "" {
		if _, err := genericoptions.ReadTracingConfiguration(o.TracingConfigFile); err != nil {
			return fmt.Errorf("--tracing-config-file: %s: give a TracingConfiguration of apiserver.config.k8s.io/v1",
				oneLine(err))
		}
	}
	if o.SecurePort < 0 || o.SecurePort > 65535 {
		return fmt.Errorf("--secure-port %d is not a port: use 1 to 65535, or 0 for a free one", o.SecurePort)
	}
	for _, x := range o.externalURLs() {
		u, err := url.Parse(x.url)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("%s %q is not the URL of an API server: give one like https://hub.example.org:6443", x.flag, x.url)
		}
	}
	if o.ReplicaKeyFile != "" && len(o.EtcdServers) == 0 {
		return fmt.Errorf("--replica-key-file %q is given without --etcd-servers: a hub with an etcd of its own "+
			"is alone, so leave it out, or give the etcd that the replicas share", o.ReplicaKeyFile)
	}
	for _, s := range o.EtcdServers {
		if u, err := url.Parse(s); err != nil || u.Host == "" && u.Path == "" || (u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "unix") {
			return fmt.Errorf("--etcd-servers %q is not a URL of an etcd server: give one like https://etcd-0.example.org:2379", s)
		}
	}
	return errors.Join(o.Authentication.validate(), o.Audit.validate())
}

type externalURL struct{ flag, url string }

// externalURLs are those that are given, with the flags that give them.
func (o *Options) externalURLs() []externalURL {
	var all []externalURL
	if o.ExternalURL != "" {
		all = append(all, externalURL{"--external-url", o.ExternalURL})
	}
	for _, u := range o.AdditionalExternalURLs {
		all = append(all, externalURL{"--additional-external-urls", u})
	}
	return all
}

// url is where clients reach the server that listens on port.
func (o *Options) url(port int) string {
	if o.ExternalURL != "" {
		return o.ExternalURL
	}
	host := o.BindAddress
	if host.IsUnspecified() {
		host = net.IPv4(127, 0, 0, 1)
	}
	return "https://" + net.JoinHostPort(host.String(), strconv.Itoa(port))
}

// servingHosts are the names and addresses that the serving certificate is for.
func (o *Options) servingHosts() []string {
	hosts := []string{
		"localhost", "127.0.0.1", "::1", o.Name,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	if !o.BindAddress.IsUnspecified() && !o.BindAddress.IsLoopback() {
		hosts = append(hosts, o.BindAddress.String())
	}
	if o.BindAddress.IsUnspecified() {
		addrs, err := net.InterfaceAddrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); err == nil && ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
				hosts = append(hosts, n.IP.String())
			}
		}
	}
	for _, x := range o.externalURLs() {
		if u, err := url.Parse(x.url); err == nil && u.Hostname() != "" && !slices.Contains(hosts, u.Hostname()) {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}
