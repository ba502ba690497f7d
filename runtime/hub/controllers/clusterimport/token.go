package clusterimport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const (
	// tokenLife is how long a cluster has to join with a token before it gets
	// another one.
	tokenLife = time.Hour
	// tokenReserve is how much of it has to be left for a token to be handed out.
	tokenReserve = 10 * time.Minute

	// importAnnotation on the Secret of a bootstrap token is the UID of the import
	// that it was made for.
	importAnnotation = "muster-fleet.io/cluster-import"
	// importRejoinAnnotation on such a Secret is the counter rejoin for which the
	// token lets the cluster join again.
	importRejoinAnnotation = "muster-fleet.io/cluster-import-rejoin"
)

const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

// tokenID is the public half of an import's token: the same at each attempt.
func tokenID(imp *v1alpha1.ClusterImport) string {
	sum := sha256.Sum256([]byte(imp.UID))
	id := make([]byte, 6)
	for i := range id {
		id[i] = alphabet[int(sum[i])%len(alphabet)]
	}
	return string(id)
}

func (c *Controller) tokenSecret(ctx context.Context, imp *v1alpha1.ClusterImport) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: cluster.TokenSecretPrefix + tokenID(imp)}
	err := c.live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) || err == nil && secret.Annotations[importAnnotation] != string(imp.UID) {
		return nil, nil
	}
	return secret, err
}

// credential is a bootstrap kubeconfig for a cluster whose agent has no identity; nil
// when it gets none. has says that it has one already. A cluster that has joined gets
// none because of what its server says: somebody with the right to it has to ask.
func (c *Controller) credential(ctx context.Context, j *job, to endpoint, has bool) ([]byte, error) {
	var token string
	var err error
	switch {
	case j.cluster.HasAgent():
		token, err = c.rejoinToken(ctx, j)
		j.rejoins = token != ""
	case j.cluster.Spec.AcceptsClient() || !has:
		token, err = c.token(ctx, j.imp, 0)
	}
	if token == "" || err != nil {
		return nil, err
	}
	return to.bootstrap(token)
}

// rejoinToken is a token with which the cluster joins again, once, because the counter
// rejoin was raised; empty where that was not asked for, or was used up. The import is
// read from the server: a cache that is late would repeat the permission.
func (c *Controller) rejoinToken(ctx context.Context, j *job) (string, error) {
	live := &v1alpha1.ClusterImport{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(j.imp), live); err != nil {
		return "", fmt.Errorf("read the import: %w", err)
	}
	asked := j.imp.Spec.Rejoin
	if asked == 0 || live.UID != j.imp.UID || live.Generation != j.imp.Generation || !j.cluster.Spec.AcceptsClient() {
		return "", nil
	}
	if live.Status.Rejoined >= asked {
		secret, err := c.tokenSecret(ctx, j.imp)
		counter := strconv.FormatInt(asked, 10)
		if err != nil || secret == nil || secret.Annotations[importRejoinAnnotation] != counter || !c.usable(secret, 0) {
			return "", err
		}
		return bootstraptoken.Parse(secret).String(), nil
	}
	token, err := c.token(ctx, j.imp, asked)
	if err == nil {
		j.status.Rejoined = asked
		c.record(j.imp, corev1.EventTypeNormal, "RejoinAllowed", "the cluster may join again, once, until %s",
			c.clock.Now().Add(tokenLife).UTC().Format(time.RFC3339))
	}
	return token, err
}

// usable reports whether a token lives for so much longer.
func (c *Controller) usable(secret *corev1.Secret, reserve time.Duration) bool {
	return c.clock.Now().Add(reserve).Before(bootstraptoken.Parse(secret).Expires)
}

// token is a bootstrap token that is bound to the cluster. With rejoin, a counter, it
// lets a cluster join again that has joined before.
func (c *Controller) token(ctx context.Context, imp *v1alpha1.ClusterImport, rejoin int64) (string, error) {
	secret, err := c.tokenSecret(ctx, imp)
	if err != nil {
		return "", err
	}
	counter := ""
	if rejoin > 0 {
		counter = strconv.FormatInt(rejoin, 10)
	}
	if secret != nil {
		asked := secret.Annotations[importRejoinAnnotation] == counter && rejoins(secret) == (rejoin > 0)
		if asked && c.usable(secret, tokenReserve) {
			return bootstraptoken.Parse(secret).String(), nil
		}
		if err := c.revoke(ctx, imp); err != nil {
			return "", err
		}
	}
	token, err := bootstraptoken.New(cluster.BoundBootstrapGroup(imp.Name), "ClusterImport "+imp.Name, c.clock.Now().Add(tokenLife))
	if err != nil {
		return "", err
	}
	token.ID = tokenID(imp)
	secret = token.Object()
	secret.Labels = nil // clusteradm must not take it for one of its own
	secret.Annotations = map[string]string{importAnnotation: string(imp.UID), cluster.TokenRevocationAnnotation: cluster.RevokeRequests}
	if rejoin > 0 {
		secret.Annotations[cluster.RejoinAnnotation] = imp.Name
		secret.Annotations[importRejoinAnnotation] = counter
	}
	if err := c.client.Create(ctx, secret); err != nil {
		return "", fmt.Errorf("make a bootstrap token: %w", err)
	}
	return token.String(), nil
}

// rejoins reports whether a token lets a cluster join again, or has.
func rejoins(secret *corev1.Secret) bool {
	return secret.Annotations[cluster.RejoinAnnotation] != "" || secret.Annotations[cluster.RejoinedAnnotation] != ""
}

// revoke deletes the import's token, if there is one.
func (c *Controller) revoke(ctx context.Context, imp *v1alpha1.ClusterImport) error {
	secret, err := c.tokenSecret(ctx, imp)
	if err != nil || secret == nil {
		return err
	}
	if err := c.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("revoke the bootstrap token: %w", err)
	}
	return nil
}

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
	published := &corev1.ConfigMap{}
	if err := c.live.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.ClusterInfo}, published); err != nil {
		return endpoint{}, fmt.Errorf("read where agents reach the hub: %w", err)
	}
	server, ca, err := bootstraptoken.Server(published.Data)
	e := endpoint{server: cmp.Or(wanted.Server, server), proxy: wanted.ProxyURL}
	switch {
	case err != nil && !errors.Is(err, bootstraptoken.ErrNoServer):
		return endpoint{}, err
	case e.server == "":
		return endpoint{}, errors.New("the hub publishes no URL: set spec.endpoint.server")
	case wanted.Trust == v1alpha1.TrustSystem:
	case len(wanted.CABundle) > 0:
		e.ca = wanted.CABundle
	default:
		e.ca = ca
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
