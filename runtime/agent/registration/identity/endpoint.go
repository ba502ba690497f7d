package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
)

// Endpoint is where the current context of a kubeconfig leads.
type Endpoint struct {
	// Cluster is the name of the context's cluster entry.
	Cluster string
	// Server is the URL of the API server, exactly as written.
	Server string
	// CAData is the PEM bundle to verify the server by.
	CAData []byte
	// ProxyURL is the proxy to go through.
	ProxyURL string
	// TLSServerName is the name to expect in the server's certificate in place
	// of its host name.
	TLSServerName string
}

// The names of user and context in the kubeconfigs of agents.
const (
	KubeconfigUser    = "default-auth"
	KubeconfigContext = "default-context"
)

// Kubeconfig is a kubeconfig that leads there, without credentials.
func (e Endpoint) Kubeconfig() kubeconfig.Config {
	return kubeconfig.Config{
		Cluster: e.Cluster, User: KubeconfigUser, Context: KubeconfigContext, Namespace: "configuration",
		Server: e.Server, CAData: e.CAData, ProxyURL: e.ProxyURL, TLSServerName: e.TLSServerName,
	}
}

// Equal reports whether both lead to the same hub in the same way.
func (e Endpoint) Equal(other Endpoint) bool {
	return e.difference(other) == ""
}

// difference names the first field in which they differ.
func (e Endpoint) difference(other Endpoint) string {
	switch {
	case e.Server != other.Server:
		return fmt.Sprintf("the hub's address is now %s and was %s", other.Server, e.Server)
	case e.ProxyURL != other.ProxyURL:
		return fmt.Sprintf("the hub's proxy is now %q and was %q", other.ProxyURL, e.ProxyURL)
	case !bytes.Equal(e.CAData, other.CAData):
		return "the hub's certificate authority is another one"
	case e.Cluster != other.Cluster:
		return fmt.Sprintf("the hub's name in the bootstrap kubeconfig is now %q and was %q", other.Cluster, e.Cluster)
	}
	return ""
}

// Bootstrap is the access to the hub with which a cluster asks to be
// registered.
type Bootstrap struct {
	Endpoint Endpoint
	// Config is the whole kubeconfig as a client's configuration.
	Config *rest.Config
	// Content is the kubeconfig itself.
	Content []byte
}

// Credentials is a digest of who the kubeconfig makes its user, wherever it leads.
func (b *Bootstrap) Credentials() string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(b.Config.BearerToken), b.Config.CertData, b.Config.KeyData} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ParseBootstrap reads a bootstrap kubeconfig. dir is the folder of its file, in
// which all files have to be that it names; "" where it comes from no file, and
// may name none. Errors don't repeat the content, which is secret.
func ParseBootstrap(content []byte, dir string) (*Bootstrap, error) {
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("it is not a kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = dir + string(os.PathSeparator) + "kubeconfig"
	}
	for _, a := range config.AuthInfos {
		a.LocationOfOrigin = dir + string(os.PathSeparator) + "kubeconfig"
	}
	if dir != "" {
		if err := clientcmd.ResolveLocalPaths(config); err != nil {
			return nil, fmt.Errorf("resolve the file names in it: %w", err)
		}
	}
	if err := checkAccess(config, dir); err != nil {
		return nil, err
	}
	endpoint, err := currentEndpoint(config)
	if err != nil {
		return nil, err
	}
	client, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("it is not a usable kubeconfig: %w", err)
	}
	client.QPS = -1
	return &Bootstrap{Endpoint: endpoint, Config: client, Content: content}, nil
}

// checkAccess refuses what a kubeconfig must not make an agent do, as those can
// write it who may not do the same: run a program, send a file's content to a
// server, or a token in clear or to a server that anybody may be. It looks at what
// the current context uses; currentEndpoint checks that there is one.
func checkAccess(config *clientcmdapi.Config, dir string) error {
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil
	}
	files := map[string]string{}
	if c := config.Clusters[context.Cluster]; c != nil && c.Server != "" {
		if u, err := url.Parse(c.Server); err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("its cluster %q has the server %q, to which credentials would be sent in clear: give the URL of the hub, with https://",
				context.Cluster, c.Server)
		}
		if c.InsecureSkipTLSVerify {
			return fmt.Errorf("its cluster %q has insecure-skip-tls-verify, by which any server would get the credentials: "+
				"give the hub's certificate-authority-data in its place", context.Cluster)
		}
		files["certificate-authority"] = c.CertificateAuthority
	}
	if a := config.AuthInfos[context.AuthInfo]; a != nil {
		if a.Exec != nil || a.AuthProvider != nil {
			return fmt.Errorf("its user %q gets credentials from a program (exec or auth-provider), and the agent runs none: "+
				"give a token or a client certificate", context.AuthInfo)
		}
		files["tokenFile"], files["client-certificate"], files["client-key"] = a.TokenFile, a.ClientCertificate, a.ClientKey
	}
	for _, field := range slices.Sorted(maps.Keys(files)) {
		if name := files[field]; name != "" && !beside(dir, name) {
			return fmt.Errorf("its %s %q is not a file beside it: put the content in, as kubectl config view --raw --flatten does", field, name)
		}
	}
	return nil
}

// beside reports whether a file is in the folder dir or below it.
func beside(dir, name string) bool {
	if dir == "" {
		return false
	}
	inside, err := filepath.Rel(dir, name)
	return err == nil && filepath.IsLocal(inside)
}

func currentEndpoint(config *clientcmdapi.Config) (Endpoint, error) {
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return Endpoint{}, fmt.Errorf("its current-context %q is not one of its contexts: set current-context to the context of the hub",
			config.CurrentContext)
	}
	c, ok := config.Clusters[context.Cluster]
	if !ok {
		return Endpoint{}, fmt.Errorf("its context %q names the cluster %q, which it does not define", config.CurrentContext, context.Cluster)
	}
	if c.Server == "" {
		return Endpoint{}, fmt.Errorf("its cluster %q has no server: give the URL of the hub", context.Cluster)
	}
	e := Endpoint{
		Cluster:       context.Cluster,
		Server:        c.Server,
		CAData:        c.CertificateAuthorityData,
		ProxyURL:      c.ProxyURL,
		TLSServerName: c.TLSServerName,
	}
	if len(e.CAData) == 0 && c.CertificateAuthority != "" {
		data, err := os.ReadFile(c.CertificateAuthority)
		if err != nil {
			return Endpoint{}, fmt.Errorf("read the certificate authority of its cluster %q: %w", context.Cluster, err)
		}
		e.CAData = data
	}
	return e, nil
}

// maxSame bounds how many earlier endpoints of a hub are remembered.
const maxSame = 16

// Place is what an agent knows of where its hub is and was, beyond the endpoint
// that it uses. The zero value is that of an agent whose hub publishes nothing
// about it.
type Place struct {
	// HubUID distinguishes the hub from others.
	HubUID string `json:"hubUID,omitempty"`
	// Generation is that of the published endpoints which the agent has followed.
	Generation int64 `json:"generation,omitempty"`
	// Origin is the URL that the agent had of its hub at first. Works are
	// accounted for under it, so that they are the same works after a move.
	Origin string `json:"origin,omitempty"`
	// Same are other endpoints that count as the same hub, the latest last. A
	// bootstrap kubeconfig that leads to one of them is not a reason to register
	// again.
	Same []Endpoint `json:"same,omitempty"`
	// URLs are further ones that the hub has published, to be tried with the
	// authorities of the present endpoint when that is out of reach.
	URLs []string `json:"urls,omitempty"`
	// Fallback is the endpoint before the last move, and FallbackUntil when it
	// ceases to be one.
	Fallback      *Endpoint `json:"fallback,omitempty"`
	FallbackUntil time.Time `json:"fallbackUntil,omitzero"`
	// Hold is for how long the agent stays where it went back to before it tries
	// the published endpoint again, and HoldUntil when that is over.
	Hold      time.Duration `json:"hold,omitempty"`
	HoldUntil time.Time     `json:"holdUntil,omitzero"`
}

func parsePlace(content []byte) Place {
	var p Place
	if len(content) == 0 || json.Unmarshal(content, &p) != nil {
		return Place{} // the agent learns it again
	}
	return p
}

// content is nil for the zero value.
func (p Place) content() ([]byte, error) {
	if p.Equal(Place{}) {
		return nil, nil
	}
	content, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write down where the hub is: %w", err)
	}
	return content, nil
}

// Equal reports whether both say the same.
func (p Place) Equal(other Place) bool {
	if !p.FallbackUntil.Equal(other.FallbackUntil) || !p.HoldUntil.Equal(other.HoldUntil) {
		return false
	}
	p.FallbackUntil, p.HoldUntil, other.FallbackUntil, other.HoldUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return reflect.DeepEqual(p, other)
}

// WorksHost is the URL under which the works of the hub are accounted for.
func (id Identity) WorksHost() string {
	if id.Place.Origin != "" {
		return id.Place.Origin
	}
	return id.Hub.Server
}

// Differs names the first field in which an endpoint is another one than the
// hub's; it is empty for the hub's endpoint and for those that count as the same
// hub.
func (id Identity) Differs(e Endpoint) string {
	d := id.Hub.difference(e)
	if d != "" && slices.ContainsFunc(id.Place.Same, e.Equal) {
		return ""
	}
	return d
}

// MoveTo is the identity with another endpoint of the same hub. The one so far
// counts as the same hub from then on.
func (id Identity) MoveTo(e Endpoint) Identity {
	moved := id
	if moved.Place.Origin == "" {
		moved.Place.Origin = id.Hub.Server
	}
	same := append(slices.DeleteFunc(slices.Clone(id.Place.Same), id.Hub.Equal), id.Hub)
	moved.Place.Same = same[max(0, len(same)-maxSame):]
	moved.Hub = e
	return moved
}

// Wanted is the endpoint that the agent is to use, by what its hub publishes. It
// is the present one when the agent is where it should be. own says that the
// cluster has a URL that the hub has never published, which the agent keeps.
func Wanted(present Endpoint, published hubinfo.Endpoints) (wanted Endpoint, own bool) {
	wanted = present
	switch urls := published.URLs; {
	case len(urls) == 0 || hubinfo.SameURL(present.Server, urls[0]):
	case hubinfo.ContainsURL(urls, present.Server) || hubinfo.ContainsURL(published.FormerURLs, present.Server):
		wanted.Server = urls[0]
	default:
		own = true
	}
	switch {
	case len(present.CAData) == 0:
		// The owner has left it to the authorities of the system.
	case hubinfo.SameBundle(present.CAData, published.CABundle):
	case own && !hubinfo.ShareCertificate(present.CAData, published.CABundle):
		// Something else stands before the hub there, with an authority of its own.
	default:
		wanted.CAData = published.CABundle
	}
	return wanted, own
}

// Alternatives are where to look for the hub when its present endpoint is out of
// reach. Each of them counts as the same hub already, or is served by the
// authorities that the agent trusts now.
func (id Identity) Alternatives(now time.Time) []Endpoint {
	var found []Endpoint
	for _, u := range id.Place.URLs {
		if !hubinfo.SameURL(u, id.Hub.Server) {
			e := id.Hub
			e.Server = u
			found = append(found, e)
		}
	}
	if f := id.Place.Fallback; f != nil && now.Before(id.Place.FallbackUntil) && !f.Equal(id.Hub) {
		found = append(found, *f)
	}
	return found
}

// SignedByFormer reports whether another authority of a bundle than its first one,
// which signs now, has signed the agent's certificate.
func (id Identity) SignedByFormer(bundle []byte) bool {
	authorities, err := hubinfo.ParseBundle(bundle)
	if err != nil {
		return false
	}
	chain, err := parseChain(id.CertPEM)
	if err != nil || chain[0].CheckSignatureFrom(authorities[0]) == nil {
		return false
	}
	return slices.ContainsFunc(authorities[1:], func(former *x509.Certificate) bool { return chain[0].CheckSignatureFrom(former) == nil })
}
