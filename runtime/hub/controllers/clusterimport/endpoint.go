package clusterimport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// endpoint is where an agent finds this hub.
type endpoint struct {
	server, proxy string
	ca            []byte
}

// hash is a short digest by which a change is seen.
func (e endpoint) hash() string {
	sum := sha256.Sum256([]byte(e.server + "\n" + e.proxy + "\n" + string(e.ca)))
	return hex.EncodeToString(sum[:8])
}

// endpointOf is what an import says, and for the rest what the hub publishes.
func (c *Controller) endpointOf(ctx context.Context, imp *v1alpha1.ClusterImport) (endpoint, error) {
	wanted := imp.Spec.Endpoint
	e := endpoint{server: wanted.Server, proxy: wanted.ProxyURL, ca: wanted.CABundle}
	published := &corev1.ConfigMap{}
	if err := c.live.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.ClusterInfo}, published); err != nil {
		return endpoint{}, fmt.Errorf("read where agents reach the hub: %w", err)
	}
	config, err := clientcmd.Load([]byte(published.Data["kubeconfig"]))
	if err != nil {
		return endpoint{}, fmt.Errorf("read where agents reach the hub: %w", err)
	}
	for _, public := range config.Clusters {
		if e.server == "" {
			e.server = public.Server
		}
		if len(e.ca) == 0 {
			e.ca = public.CertificateAuthorityData
		}
	}
	if wanted.Trust == v1alpha1.TrustSystem {
		e.ca = nil
	}
	if e.server == "" {
		return endpoint{}, errors.New("the hub publishes no URL: set spec.endpoint.server")
	}
	return e, nil
}

// bootstrap is a kubeconfig with which an agent registers here.
func (e endpoint) bootstrap(token string) ([]byte, error) {
	return kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: e.server, CAData: e.ca, ProxyURL: e.proxy, Token: token}.YAML()
}

// moved is a kubeconfig that leads to e, and says all else as before; changed is false
// when it leads there already.
func (e endpoint) moved(content []byte) (out []byte, changed bool, err error) {
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, false, errors.New("it is not a kubeconfig")
	}
	to := currentCluster(config)
	if to == nil {
		return nil, false, errors.New("it has no current context")
	}
	if to.Server == e.server && to.ProxyURL == e.proxy && bytes.Equal(to.CertificateAuthorityData, e.ca) {
		return content, false, nil
	}
	to.Server, to.ProxyURL, to.CertificateAuthorityData = e.server, e.proxy, e.ca
	out, err = clientcmd.Write(*config)
	return out, err == nil, err
}

func currentCluster(config *clientcmdapi.Config) *clientcmdapi.Cluster {
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil
	}
	return config.Clusters[context.Cluster]
}

// certified reports whether an agent's Secret holds a certificate of a cluster that
// this hub has signed and that has not expired, with its key, and whether the hub serves
// this agent. mc is nil when the hub has no such cluster yet.
func (c *Controller) certified(secret *corev1.Secret, name string, mc *clusterv1.ManagedCluster) bool {
	if secret == nil || len(secret.Data[cluster.KubeconfigKey]) == 0 {
		return false
	}
	pair, err := tls.X509KeyPair(secret.Data[cluster.TLSCertKey], secret.Data[cluster.TLSKeyKey])
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(c.options.HubCA) {
		return false
	}
	of, agent, ok := cluster.ParseCommonName(pair.Leaf.Subject.CommonName)
	if !ok || of != name || mc != nil && cluster.Replaced(mc.Annotations, agent) {
		return false
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: c.clock.Now().Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err == nil
}
