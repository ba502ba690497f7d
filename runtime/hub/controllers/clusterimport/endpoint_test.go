package clusterimport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// A change of the hub's URL, of its CA alone, of the proxy, and of what is trusted are
// each something else to install, and lead an agent's kubeconfig there.
func TestEachPartOfTheEndpointRollsTheAgent(t *testing.T) {
	imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}
	before := endpoint{server: "https://a", ca: []byte("old")}
	content, err := before.bootstrap("token")
	if err != nil {
		t.Fatal(err)
	}
	_, hash, err := render(imp, before, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, moved, err := before.moved(content); moved || err != nil {
		t.Errorf("it leads elsewhere than it does: %v", err)
	}
	for what, after := range map[string]endpoint{
		"URL":          {server: "https://b", ca: []byte("old")},
		"CA":           {server: "https://a", ca: []byte("new")},
		"proxy":        {server: "https://a", ca: []byte("old"), proxy: "http://proxy:3128"},
		"trust System": {server: "https://a"},
	} {
		_, now, err := render(imp, after, nil)
		if err != nil || now == hash {
			t.Errorf("%s: nothing is to be installed: %v", what, err)
		}
		out, moved, err := after.moved(content)
		if err != nil || !moved || !strings.Contains(string(out), "token: token") {
			t.Errorf("%s: moved %t, %v: %s", what, moved, err, out)
		}
		if has := strings.Contains(string(out), "certificate-authority-data"); has != (len(after.ca) > 0) {
			t.Errorf("%s: the kubeconfig is %s", what, out)
		}
		if _, again, _ := after.moved(out); again {
			t.Errorf("%s: it is moved without end", what)
		}
	}
	// What is secret is no part of the hash, so a new token rolls nothing.
	if _, with, _ := render(imp, before, content); with != hash {
		t.Error("a bootstrap kubeconfig changes what is installed")
	}
}

// A name that a cluster has joined with is kept for that one: what a server says of
// itself is no proof.
func TestAJoinedNameNeedsProof(t *testing.T) {
	joined := func(annotations map[string]string) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris", Annotations: annotations}}
		mc.Spec.HubAcceptsClient = ptr.To(true)
		mc.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue}}
		return mc
	}
	uid, pin := map[string]string{muster.ClusterUIDAnnotation: "u"}, "sha256:"+strings.Repeat("a", 64)
	for what, x := range map[string]struct {
		mc            *clusterv1.ManagedCluster
		spec          v1alpha1.ClusterImportSpec
		status        v1alpha1.ClusterImportStatus
		certified, ok bool
	}{
		"no such cluster":                    {ok: true},
		"not joined yet":                     {mc: &clusterv1.ManagedCluster{}, ok: true},
		"joined by itself":                   {mc: joined(nil)},
		"joined by itself, with certificate": {mc: joined(nil), certified: true, ok: true},
		"named by its UID alone":             {mc: joined(nil), spec: v1alpha1.ClusterImportSpec{ClusterUID: "u"}},
		"a UID in the status alone":          {mc: joined(nil), status: v1alpha1.ClusterImportStatus{ClusterUID: "u"}},
		"a UID on the cluster alone":         {mc: joined(uid)},
		"replaced, and not joined":           {mc: &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{cluster.AgentAnnotation: "a"}}}},
		"named by its authority":             {mc: joined(nil), spec: v1alpha1.ClusterImportSpec{ClusterAuthority: pin}, ok: true},
		"installed by this import":           {mc: joined(nil), status: v1alpha1.ClusterImportStatus{ClusterAuthority: pin}, ok: true},
		"installed by a former import":       {mc: joined(map[string]string{muster.ClusterAuthorityAnnotation: pin}), ok: true},
	} {
		imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "paris"}, Spec: x.spec}
		j := &job{
			imp: imp, status: &x.status, cluster: x.mc, uid: "u",
			managed: &connection{authority: &authority{wanted: pin}},
		}
		j.pinned = pinnedAuthority(j)
		why := unproven(j, x.certified)
		if (why == "") != x.ok || !x.ok && !strings.Contains(why, pin) {
			t.Errorf("%s: %q", what, why)
		}
	}
}

// Only who holds the key of the certificate that the hub serves is the cluster's agent.
func TestACertificateAloneIsNoProof(t *testing.T) {
	ca, caKey := authorityOf(t, "hub")
	_, foreignKey := authorityOf(t, "hub")
	cert, key := certificateOf(t, ca, caKey, "system:open-cluster-management:paris:a")
	forged, forgedKey := certificateOf(t, ca, foreignKey, "system:open-cluster-management:paris:a")
	_, other := certificateOf(t, ca, caKey, "system:open-cluster-management:paris:a")
	named := func(agent string) *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{cluster.AgentAnnotation: agent}}}
	}
	c := NewController(nil, nil, nil, clocktesting.NewFakePassiveClock(time.Now()), Options{HubCA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})})
	for what, x := range map[string]struct {
		cert, key []byte
		name      string
		mc        *clusterv1.ManagedCluster
		ok        bool
	}{
		"its own":                       {cert, key, "paris", nil, true},
		"of the agent that is served":   {cert, key, "paris", named("a"), true},
		"of an agent that was replaced": {cert, key, "paris", named("b"), false},
		"of another cluster":            {cert, key, "rome", nil, false},
		"with another key":              {cert, other, "paris", nil, false},
		"with no key":                   {cert, []byte("x"), "paris", nil, false},
		"by another authority":          {forged, forgedKey, "paris", nil, false},
	} {
		secret := &corev1.Secret{Data: map[string][]byte{cluster.KubeconfigKey: []byte("x"), cluster.TLSCertKey: x.cert, cluster.TLSKeyKey: x.key}}
		if got := c.certified(secret, x.name, x.mc); got != x.ok {
			t.Errorf("%s: certified is %t", what, got)
		}
	}
}

func authorityOf(t *testing.T, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testkit.Must(t, err)
	ca, err := x509.ParseCertificate(der)
	testkit.Must(t, err)
	return ca, key
}

func certificateOf(t *testing.T, ca *x509.Certificate, by *ecdsa.PrivateKey, name string) (cert, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	issuer := *ca
	issuer.PublicKey = &by.PublicKey // one with the same name may be another authority
	der, err := x509.CreateCertificate(rand.Reader, template, &issuer, &own.PublicKey, by)
	testkit.Must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(own)
	testkit.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// What an import publishes comes first, replaces what it has published before, and leaves
// the addresses of others.
func TestPublishedServer(t *testing.T) {
	at := func(urls ...string) (list []clusterv1.ClientConfig) {
		for _, url := range urls {
			list = append(list, clusterv1.ClientConfig{URL: url})
		}
		return list
	}
	for what, x := range map[string]struct {
		before []clusterv1.ClientConfig
		former string
		wanted []clusterv1.ClientConfig
		after  []clusterv1.ClientConfig
	}{
		"first":       {at("https://agents"), "", at("https://a"), at("https://a", "https://agents")},
		"again":       {at("https://a", "https://agents"), "https://a", at("https://a"), at("https://a", "https://agents")},
		"moved":       {at("https://a", "https://agents"), "https://a", at("https://b"), at("https://b", "https://agents")},
		"taken back":  {at("https://a", "https://agents"), "https://a", nil, at("https://agents")},
		"not its own": {at("https://a"), "", nil, at("https://a")},
	} {
		var wanted *clusterv1.ClientConfig
		if len(x.wanted) > 0 {
			wanted = &x.wanted[0]
		}
		if got := published(x.before, x.former, wanted); !equality.Semantic.DeepEqual(got, x.after) {
			t.Errorf("%s: %v, want %v", what, got, x.after)
		}
	}
}
