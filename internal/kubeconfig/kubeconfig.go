// Package kubeconfig makes kubeconfigs with one cluster, one user and one context.
package kubeconfig

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config says what a kubeconfig holds: one cluster, one user, one context.
type Config struct {
	// Cluster, User and Context are the entries' names; Context is the current
	// one. Context defaults to Cluster.
	Cluster, User, Context string
	// Server is the URL of the API server.
	Server string
	// CAData is the PEM bundle to verify the server by. Empty means the
	// system's certificate authorities.
	CAData []byte
	// ProxyURL is the proxy to go through; empty means none.
	ProxyURL string
	// TLSServerName is the name to expect in the server's certificate in place of its
	// host name; empty means the host name.
	TLSServerName string
	// Namespace is what kubectl uses when none is given.
	Namespace string

	// Token is a bearer token.
	Token string
	// CertData and KeyData are a PEM-encoded client certificate and its key.
	CertData, KeyData []byte
	// CertFile and KeyFile name files with the same, relative to the
	// kubeconfig's own place.
	CertFile, KeyFile string
	// TokenFile names a file with a bearer token, in the same way.
	TokenFile string
}

// Object is the kubeconfig as client-go's type.
func (c Config) Object() *clientcmdapi.Config {
	context := c.Context
	if context == "" {
		context = c.Cluster
	}
	return &clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{c.Cluster: {
			Server:                   c.Server,
			CertificateAuthorityData: c.CAData,
			ProxyURL:                 c.ProxyURL,
			TLSServerName:            c.TLSServerName,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{c.User: {
			Token:                 c.Token,
			TokenFile:             c.TokenFile,
			ClientCertificateData: c.CertData,
			ClientKeyData:         c.KeyData,
			ClientCertificate:     c.CertFile,
			ClientKey:             c.KeyFile,
		}},
		Contexts: map[string]*clientcmdapi.Context{context: {
			Cluster:   c.Cluster,
			AuthInfo:  c.User,
			Namespace: c.Namespace,
		}},
		CurrentContext: context,
	}
}

// YAML is the kubeconfig as a file's content.
func (c Config) YAML() ([]byte, error) {
	return clientcmd.Write(*c.Object())
}

// MaxContained is the greatest size of a kubeconfig that Contain reads, in bytes.
const MaxContained = 64 << 10

// flatten is how to make a kubeconfig that has everything in it.
const flatten = "kubectl config view --raw --flatten --minify"

// Contained is what the current context of a kubeconfig says, when it needs nothing
// but itself.
type Contained struct {
	// Server is the URL of the API server. It is never plain HTTP.
	Server *url.URL
	// Proxy is the proxy to go through; nil for none.
	Proxy *url.URL
	// Config has the server, the credentials and the TLS settings, and no proxy.
	Config *rest.Config
}

// Contain reads a kubeconfig that somebody else has written, to be used where its
// author has no rights: it is refused if it would run a program, read a file, or send
// credentials where anybody may listen. Errors say what to do, and never repeat the
// content.
func Contain(content []byte) (*Contained, error) {
	if len(content) > MaxContained {
		return nil, fmt.Errorf("it has %d bytes, and more than %d are not read: reduce it to one context, with %s", len(content), MaxContained, flatten)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig: make one with " + flatten)
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, fmt.Errorf("its current-context %q is none of its contexts: set current-context", config.CurrentContext)
	}
	to, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if to == nil || user == nil {
		return nil, fmt.Errorf("its context %q names a cluster or a user that it does not have: make it with %s", config.CurrentContext, flatten)
	}
	c := &Contained{}
	if c.Server, err = serverOf(to); err != nil {
		return nil, err
	}
	if c.Proxy, err = proxyOf(to); err != nil {
		return nil, err
	}
	if err := refuseCredentials(user); err != nil {
		return nil, err
	}
	c.Config = &rest.Config{
		Host: c.Server.String(), BearerToken: user.Token, Username: user.Username, Password: user.Password,
		Impersonate: rest.ImpersonationConfig{UserName: user.Impersonate, UID: user.ImpersonateUID, Groups: user.ImpersonateGroups, Extra: user.ImpersonateUserExtra},
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: to.TLSServerName, CAData: to.CertificateAuthorityData,
			CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
		},
	}
	if _, err := rest.TLSConfigFor(c.Config); err != nil {
		return nil, errors.New("its certificate, key or certificate authority can't be read: they have to be PEM, and the key has to be that of the certificate")
	}
	return c, nil
}

func serverOf(to *clientcmdapi.Cluster) (*url.URL, error) {
	u, err := url.Parse(to.Server)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "":
		return nil, fmt.Errorf("its server is not a URL of an API server, such as https://api.example.com:6443")
	case u.Scheme != "https":
		return nil, fmt.Errorf("its server %s has the scheme %q, by which credentials would be sent in clear: give its URL with https://", u.Host, u.Scheme)
	case to.InsecureSkipTLSVerify:
		return nil, errors.New("it has insecure-skip-tls-verify, by which any server would get the credentials: give the cluster's certificate-authority-data in its place")
	case to.CertificateAuthority != "":
		return nil, fileError("certificate-authority")
	}
	return u, nil
}

func proxyOf(to *clientcmdapi.Cluster) (*url.URL, error) {
	if to.ProxyURL == "" {
		return nil, nil
	}
	u, err := url.Parse(to.ProxyURL)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		return nil, errors.New("its proxy-url is not a URL of a proxy, such as http://proxy.example.com:3128")
	}
	return u, nil
}

// refuseCredentials refuses credentials that are not in the kubeconfig.
func refuseCredentials(user *clientcmdapi.AuthInfo) error {
	switch {
	case user.Exec != nil || user.AuthProvider != nil:
		return errors.New("its user gets credentials from a program (exec or auth-provider), and none is run here: " +
			"give a token of a service account, or a client certificate")
	case user.TokenFile != "":
		return fileError("tokenFile")
	case user.ClientCertificate != "":
		return fileError("client-certificate")
	case user.ClientKey != "":
		return fileError("client-key")
	case user.Token == "" && len(user.ClientCertificateData) == 0 && user.Username == "":
		return errors.New("its user has no credentials: give a token of a service account, or a client certificate")
	}
	return nil
}

func fileError(field string) error {
	return fmt.Errorf("its %s names a file, and no file is read here: put the content in, with %s", field, flatten)
}

// metadataServices are addresses at which clouds give credentials to everybody who asks from
// a machine, beyond those that are link-local.
func metadataServices() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr("fd00:ec2::254"),   // AWS
		netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
		netip.MustParseAddr("168.63.129.16"),   // Azure
		netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
	}
}

// RefusedAddress says why a program that follows somebody else's kubeconfig must not
// connect to an address; empty when it may. own are addresses of the program's own
// machine. loopback allows these and the machine's loopback, for fleets on one
// machine.
func RefusedAddress(ip netip.Addr, own []netip.Addr, loopback bool) string {
	ip = embedded(ip.Unmap().WithZone(""))
	switch {
	case !ip.IsValid():
		return "it is not an address"
	case ip.IsUnspecified() || ip.IsLoopback() || slices.Contains(own, ip):
		if loopback {
			return ""
		}
		return "it is an address of the hub's own machine"
	case ip.IsLinkLocalUnicast():
		return "it is link-local, as the metadata services of clouds are"
	case slices.Contains(metadataServices(), ip):
		return "it is the metadata service of a cloud"
	case ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "it is the address of no single machine"
	}
	return ""
}

// embedded is the IPv4 address that an IPv6 address leads to: NAT64 and 6to4.
func embedded(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return ip
	}
	raw := ip.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip):
		return netip.AddrFrom4([4]byte(raw[12:16]))
	case netip.MustParsePrefix("2002::/16").Contains(ip):
		return netip.AddrFrom4([4]byte(raw[2:6]))
	}
	return ip
}

// RefusedHost says why a URL's host can be refused without looking its name up; empty
// when it can't.
func RefusedHost(host string, own []netip.Addr, loopback bool) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return RefusedAddress(ip, own, loopback)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return RefusedAddress(netip.IPv6Loopback(), own, loopback)
	}
	return ""
}

// What an authority begins with.
const (
	authorityKey  = "sha256:"
	authorityName = "dns:"
)

// Authorities are who vouches for an API server on a connection that was verified:
// "sha256:" and the hash of an authority's public key, the root's first, for each that
// has signed. Where the machine's own, public authorities vouch for it, they do so for
// everybody's server, and what counts is the server's name: "dns:" and host.
func Authorities(state tls.ConnectionState, host string) []string {
	system, err := x509.SystemCertPool()
	if err != nil {
		system = x509.NewCertPool()
	}
	return authorities(state, host, system)
}

func authorities(state tls.ConnectionState, host string, public *x509.CertPool) []string {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	intermediates := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	options := x509.VerifyOptions{Roots: public, Intermediates: intermediates, DNSName: host}
	if _, err := state.PeerCertificates[0].Verify(options); err == nil {
		return []string{authorityName + strings.ToLower(host)}
	}
	var found []string
	for _, chain := range state.VerifiedChains {
		signers := chain
		if len(chain) > 1 { // otherwise the kubeconfig trusts the certificate itself
			signers = chain[1:]
		}
		for _, c := range slices.Backward(signers) {
			sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
			if is := authorityKey + hex.EncodeToString(sum[:]); !slices.Contains(found, is) {
				found = append(found, is)
			}
		}
	}
	return found
}

var keyHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// CheckAuthority says why a text is none that Authorities returns.
func CheckAuthority(text string) error {
	hash, isKey := strings.CutPrefix(text, authorityKey)
	name, isName := strings.CutPrefix(text, authorityName)
	switch {
	case isKey && keyHash.MatchString(hash):
		return nil
	case isName && len(validation.IsDNS1123Subdomain(name)) == 0:
		return nil
	}
	if _, err := netip.ParseAddr(name); isName && err == nil {
		return nil
	}
	return errors.New(`it has to be "sha256:" with the SHA-256 of the public key of the cluster's authority in 64 hexadecimal ` +
		`digits, or "dns:" with the server's name, as in the condition KubeconfigUsable of the import`)
}
