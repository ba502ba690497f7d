package hub_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// scoped makes a bootstrap token with annotations and returns its Secret and a
// client that uses it.
func scoped(t testing.TB, group string, annotations map[string]string) (*corev1.Secret, client.Client) {
	t.Helper()
	secret, token := annotatedToken(t, group, annotations)
	return secret, clientFor(t, withToken(token))
}

func usedBy(t testing.TB, secret *corev1.Secret) string {
	t.Helper()
	testkit.Must(t, clientFor(t, admin).Get(context.Background(), client.ObjectKeyFromObject(secret), secret))
	return secret.Annotations[cluster.TokenUsedByAnnotation]
}

// createLabelled creates a ManagedCluster with labels.
func createLabelled(t testing.TB, c client.Client, name string, labels map[string]string) error {
	t.Helper()
	mc := newCluster(name)
	mc.Labels = labels
	return c.Create(context.Background(), mc)
}

func TestTokenLabelsTheClustersThatItCreates(t *testing.T) {
	for kind, x := range map[string]struct{ group func(string) string }{
		"any cluster's": {func(string) string { return cluster.BootstrapGroup }},
		// A bound token may not join sets; the user who made it chooses the set.
		"one cluster's": {cluster.BoundBootstrapGroup},
	} {
		t.Run(kind, func(t *testing.T) {
			name := clusterName(t, "labelled")
			secret, bootstrap := scoped(t, x.group(name), map[string]string{
				cluster.TokenClusterLabelsAnnotation: "env=prod," + cluster.ClusterSetLabel + "=blue",
			})
			mustBeForbidden(t, "another value", createLabelled(t, bootstrap, name, map[string]string{"env": "dev"}))
			testkit.Must(t, createLabelled(t, bootstrap, name, map[string]string{"own": "x", "env": "prod"}))
			mc := newCluster(name)
			testkit.Must(t, clientFor(t, admin).Get(context.Background(), client.ObjectKeyFromObject(mc), mc))
			want := map[string]string{
				"own": "x", "env": "prod", cluster.ClusterSetLabel: "blue",
				cluster.TokenLabel: strings.TrimPrefix(secret.Name, "bootstrap-token-"),
			}
			for k, v := range want {
				if mc.Labels[k] != v {
					t.Errorf("label %s is %q, want %q", k, mc.Labels[k], v)
				}
			}
		})
	}
}

func TestTokenRegistersNoMoreClustersThanItMay(t *testing.T) {
	ctx := context.Background()
	a, b, c := clusterName(t, "a"), clusterName(t, "b"), clusterName(t, "c")
	secret, bootstrap := scoped(t, cluster.BootstrapGroup, map[string]string{cluster.TokenMaxClustersAnnotation: "2"})
	// One cluster is created with the token, the other is there before.
	testkit.Must(t, bootstrap.Create(ctx, newCluster(a)))
	testkit.Must(t, clientFor(t, admin).Create(ctx, newCluster(b)))
	for _, name := range []string{a, b, b} { // a second request is no second use
		r, _ := certificateRequest(t, name, "x")
		testkit.Must(t, bootstrap.Create(ctx, r))
	}
	if got, want := usedBy(t, secret), a+","+b; got != want {
		t.Errorf("used by %q, want %q", got, want)
	}
	err := bootstrap.Create(ctx, newCluster(c))
	mustBeForbidden(t, "a third cluster", err)
	for _, part := range []string{"may register 2 clusters", a, b, "use another token"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	r, _ := certificateRequest(t, c, "x")
	mustBeForbidden(t, "a third cluster's request", bootstrap.Create(ctx, r))

	// What is refused for another reason, and what is only tried, does not count.
	testkit.Must(t, clientFor(t, admin).Get(ctx, client.ObjectKeyFromObject(secret), secret))
	secret.Annotations[cluster.TokenMaxClustersAnnotation] = "3"
	testkit.Must(t, clientFor(t, admin).Update(ctx, secret))
	bad := newCluster(c)
	bad.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "http://plain"}}
	if err := bootstrap.Create(ctx, bad); !apierrors.IsBadRequest(err) {
		t.Errorf("got %v", err)
	}
	testkit.Must(t, bootstrap.Create(ctx, newCluster(c), client.DryRunAll))
	if got, want := usedBy(t, secret), a+","+b; got != want {
		t.Errorf("used by %q, want %q", got, want)
	}
}

func TestTokenIsCountedRightWhenManyJoinAtOnce(t *testing.T) {
	secret, bootstrap := scoped(t, cluster.BootstrapGroup, map[string]string{cluster.TokenMaxClustersAnnotation: "5"})
	var group sync.WaitGroup
	results := make(chan error, 20)
	for range 20 {
		mc := newCluster(clusterName(t, "crowd"))
		group.Go(func() { results <- bootstrap.Create(context.Background(), mc) })
	}
	group.Wait()
	close(results)
	created := 0
	for err := range results {
		switch {
		case err == nil:
			created++
		case !apierrors.IsForbidden(err):
			t.Error(err)
		}
	}
	if n := len(strings.Split(usedBy(t, secret), ",")); created != 5 || n != 5 {
		t.Errorf("%d clusters created and %d noted, want 5", created, n)
	}
}

func TestTokenWithABrokenScopeIsOfNoUse(t *testing.T) {
	_, bootstrap := scoped(t, cluster.BootstrapGroup, map[string]string{cluster.TokenMaxClustersAnnotation: "several"})
	err := bootstrap.Create(context.Background(), newCluster(clusterName(t, "broken")))
	mustBeForbidden(t, "a cluster", err)
	if !strings.Contains(err.Error(), cluster.TokenMaxClustersAnnotation) || !strings.Contains(err.Error(), "several") {
		t.Errorf("the error does not say what is broken: %v", err)
	}
}

func TestTokenMayBeBoundToSeveralClusters(t *testing.T) {
	ctx := context.Background()
	a, b, c := clusterName(t, "a"), clusterName(t, "b"), clusterName(t, "c")
	_, bootstrap := scoped(t, cluster.BoundBootstrapGroup(a)+","+cluster.BoundBootstrapGroup(b), nil)
	for _, name := range []string{a, b} {
		testkit.Must(t, bootstrap.Create(ctx, newCluster(name)))
		r, _ := certificateRequest(t, name, "x")
		testkit.Must(t, bootstrap.Create(ctx, r))
		accept(t, name, true)
		certificate(t, r.Name) // approved by the hub
	}
	err := bootstrap.Create(ctx, newCluster(c))
	mustBeForbidden(t, "a third cluster", err)
	if !strings.Contains(err.Error(), fmt.Sprintf("%q, %q", a, b)) {
		t.Errorf("the error does not say what the token is bound to: %v", err)
	}
	r, _ := certificateRequest(t, c, "x")
	mustBeForbidden(t, "a third cluster's request", bootstrap.Create(ctx, r))
	mustBeForbidden(t, "listing all clusters", bootstrap.List(ctx, &clusterv1.ManagedClusterList{}))
}

func TestRevokedTokenTakesItsRequestsAlong(t *testing.T) {
	ctx := context.Background()
	hub := clientFor(t, admin)
	revoking := map[string]string{cluster.TokenRevocationAnnotation: cluster.RevokeRequests}
	request := func(c client.Client) *certificatesv1.CertificateSigningRequest {
		r, _ := certificateRequest(t, clusterName(t, "revoked"), "x")
		testkit.Must(t, c.Create(ctx, r))
		return r
	}
	secret, bootstrap := scoped(t, cluster.BootstrapGroup, revoking)
	pending, approved := request(bootstrap), request(bootstrap)
	testkit.Must(t, approve(ctx, clientsetFor(t, admin), approved))
	plain, others := scoped(t, cluster.BootstrapGroup, nil)
	kept := request(others)
	testkit.Must(t, hub.Delete(ctx, plain)) // an upstream user's token
	testkit.Must(t, hub.Delete(ctx, secret))

	waitGone(t, pending)
	for _, r := range []*certificatesv1.CertificateSigningRequest{approved, kept} {
		if err := hub.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			t.Errorf("the request %s: %v", r.Name, err)
		}
	}
	mustBecomeUseless(t, bootstrap)
}

// mustBecomeUseless waits until the hub no longer takes a token. Its
// authenticator learns of the Secret's end by a watch.
func mustBecomeUseless(t testing.TB, bootstrap client.Client) {
	t.Helper()
	name := clusterName(t, "late")
	testkit.Eventually(t, func() error {
		if err := bootstrap.Get(context.Background(), client.ObjectKey{Name: name}, newCluster(name)); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the token is still good: %v", err)
		}
		return nil
	})
}

func TestExpiredTokensAreRemovedAndTheirRequestsStay(t *testing.T) {
	ctx := context.Background()
	secret, bootstrap := scoped(t, cluster.BootstrapGroup, map[string]string{cluster.TokenRevocationAnnotation: cluster.RevokeRequests})
	r, _ := certificateRequest(t, clusterName(t, "expired"), "x")
	testkit.Must(t, bootstrap.Create(ctx, r))
	testkit.Must(t, clientFor(t, admin).Get(ctx, client.ObjectKeyFromObject(secret), secret))
	secret.Data["expiration"] = []byte(time.Now().Add(-time.Second).UTC().Format(time.RFC3339))
	testkit.Must(t, clientFor(t, admin).Update(ctx, secret))
	waitGone(t, secret)
	mustBecomeUseless(t, bootstrap)
	if err := clientFor(t, admin).Get(ctx, client.ObjectKeyFromObject(r), &certificatesv1.CertificateSigningRequest{}); err != nil {
		t.Errorf("the request: %v", err)
	}
}
