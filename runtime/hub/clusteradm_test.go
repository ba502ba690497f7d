package hub_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// These tests send what clusteradm sends for each of its commands, and look at
// what it depends on or prints.

// hubCheck is what every command for hubs begins with.
func hubCheck(t testing.TB, k kubernetes.Interface) {
	t.Helper()
	list, err := k.Discovery().ServerResourcesForGroupVersion("cluster.open-cluster-management.io/v1")
	testkit.Must(t, err)
	if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "managedclusters" }) {
		t.Errorf("it takes the server for no hub: %+v", list.APIResources)
	}
}

// serviceAccountToken is what "clusteradm get token" hands out.
func serviceAccountToken(t testing.TB) string {
	t.Helper()
	k := clientsetFor(t, admin)
	hubCheck(t, k)
	request, err := k.CoreV1().ServiceAccounts("open-cluster-management").CreateToken(context.Background(), "agent-registration-bootstrap",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(3600))}}, metav1.CreateOptions{})
	testkit.Must(t, err)
	return request.Status.Token
}

func TestClusteradmGetToken(t *testing.T) {
	config := withToken(serviceAccountToken(t))
	who := known(t, config).user
	if who.Username != "system:serviceaccount:open-cluster-management:agent-registration-bootstrap" {
		t.Errorf("the token is %s's", who.Username)
	}
}

// With --use-bootstrap-token it looks for the one that clusteradm init makes,
// which may have been replaced.
func TestClusteradmGetTokenUsesTheNewestBootstrapToken(t *testing.T) {
	ctx := context.Background()
	k, c := clientsetFor(t, admin), clientFor(t, admin)
	hubCheck(t, k)
	made := map[string]bool{}
	for range 2 {
		secret, token := annotatedToken(t, "system:bootstrappers:managedcluster", nil)
		secret.Labels = map[string]string{"app": "cluster-manager"}
		testkit.Must(t, c.Update(ctx, secret))
		made[token] = true
	}
	list, err := k.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app = cluster-manager"})
	testkit.Must(t, err)
	tokens := slices.DeleteFunc(list.Items, func(s corev1.Secret) bool { return !strings.HasPrefix(s.Name, "bootstrap-token-") })
	newest := slices.MaxFunc(tokens, func(a, b corev1.Secret) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	printed := fmt.Sprintf("%s.%s", newest.Data["token-id"], newest.Data["token-secret"])
	if !made[printed] {
		t.Errorf("it prints %q, which is none of those that were made", printed)
	}
	announced(t, withToken(printed), clusterName(t, "adm-token"))
}

// insecurely is how clusteradm asks a hub whose authority it doesn't know yet.
func insecurely(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
	return config
}

func TestClusteradmJoinFindsItsWay(t *testing.T) {
	ctx := t.Context()
	name := clusterName(t, "adm-join")
	for kind, x := range map[string]struct{ token, name string }{
		"a service account's token": {serviceAccountToken(t), clusterName(t, "adm-join-a")},
		"a bootstrap token":         {bootstrapToken(t, cluster.BootstrapGroup), clusterName(t, "adm-join-b")},
		"a bound token":             {bootstrapToken(t, cluster.BoundBootstrapGroup(name)), name},
	} {
		t.Run(kind, func(t *testing.T) {
			blind := insecurely(withToken(x.token))
			info, err := clientsetFor(t, blind).CoreV1().ConfigMaps("kube-public").Get(ctx, "cluster-info", metav1.GetOptions{})
			testkit.Must(t, err)
			config, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
			testkit.Must(t, err)
			if len(config.Clusters) != 1 {
				t.Fatalf("%d clusters in the cluster-info, want 1", len(config.Clusters))
			}
			// With what it says, it looks at the hub.
			seeing := withToken(x.token)
			for _, found := range config.Clusters {
				if found.Server != admin.Host {
					t.Errorf("the cluster-info leads to %s instead of %s", found.Server, admin.Host)
				}
				seeing.CAData, seeing.CAFile = found.CertificateAuthorityData, ""
			}
			k := clientsetFor(t, seeing)
			version, err := k.Discovery().ServerVersion()
			testkit.Must(t, err)
			if cmp.Or(version.GitVersion, version.Major, version.Minor) == "" {
				t.Errorf("the version is %+v", version)
			}
			hubCheck(t, k)

			// With --wait it waits for the agent's first sign.
			watcher, err := client.NewWithWatch(blind, client.Options{Scheme: clientFor(t, admin).Scheme(), Mapper: clientFor(t, admin).RESTMapper()})
			testkit.Must(t, err)
			w, err := watcher.Watch(ctx, &clusterv1.ManagedClusterList{}, client.MatchingFields{"metadata.name": x.name})
			testkit.Must(t, err)
			defer w.Stop()
			testkit.Must(t, clientFor(t, withToken(x.token)).Create(ctx, newCluster(x.name)))
			if mc, ok := (<-w.ResultChan()).Object.(*clusterv1.ManagedCluster); !ok || mc.Name != x.name {
				t.Errorf("the first event is about %+v", mc)
			}
		})
	}
}

// What it would do without cluster-info, and for hubs with gRPC, must not be
// taken for a refusal.
func TestClusteradmJoinDistinguishesAbsentFromForbidden(t *testing.T) {
	k := clientsetFor(t, withToken(bootstrapToken(t, cluster.BootstrapGroup)))
	for namespace, name := range map[string]string{"kube-public": "absent", "open-cluster-management-hub": "ca-bundle-configmap"} {
		if _, err := k.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("reading %s/%s: %v", namespace, name, err)
		}
	}
	// Without credentials it is not told more than where the hub is.
	anonymous := clientsetFor(t, rest.AnonymousClientConfig(admin))
	_, err := anonymous.Discovery().ServerVersion()
	testkit.Must(t, err)
	var status int
	anonymous.Discovery().RESTClient().Get().AbsPath("/apis/cluster.open-cluster-management.io/v1/managedclusters").Do(t.Context()).StatusCode(&status)
	if status != http.StatusForbidden {
		t.Errorf("managed clusters without credentials: %d", status)
	}
}

func TestClusteradmClusterSets(t *testing.T) {
	ctx := context.Background()
	c := clientFor(t, admin)
	name, namespace := clusterName(t, "adm-set"), testenv.Namespace(t, c)
	testkit.Must(t, c.Create(ctx, newCluster(name)))
	s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "adm-" + name}}
	testkit.Must(t, c.Create(ctx, s))
	t.Cleanup(func() { _ = c.Delete(ctx, s) })

	// set: the cluster as it is read, with another label, is put back. A
	// controller may be quicker, and then it is told so.
	testkit.Eventually(t, func() error {
		mc := newCluster(name)
		if err := c.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		mc.Labels[cluster.ClusterSetLabel] = s.Name
		return c.Update(ctx, mc)
	})
	// get clustersets prints the message of the condition.
	eventually(t, s, func(s *clusterv1beta2.ManagedClusterSet) error {
		return conditionIs(s.Status.Conditions, "ClusterSetEmpty", metav1.ConditionFalse, "ClustersSelected", "1 ManagedClusters selected")
	})
	// set --namespaces: appends to the set and puts it back.
	s.Spec.ManagedNamespaces = append(s.Spec.ManagedNamespaces, clusterv1beta2.ManagedNamespaceConfig{Name: "team"})
	testkit.Must(t, c.Update(ctx, s))
	waitForCluster(t, name, func(mc *clusterv1.ManagedCluster) error {
		if n := mc.Status.ManagedNamespaces; len(n) != 1 || n[0].Name != "team" || n[0].ClusterSet != s.Name {
			return fmt.Errorf("managed namespaces %+v", n)
		}
		return nil
	})
	// bind, twice, and unbind, twice.
	binding := func() *clusterv1beta2.ManagedClusterSetBinding {
		return &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: s.Name}}
	}
	testkit.Must(t, c.Create(ctx, binding()))
	if err := c.Create(ctx, binding()); !apierrors.IsAlreadyExists(err) {
		t.Errorf("binding again: %v", err)
	}
	testkit.Must(t, c.Delete(ctx, binding()))
	if err := c.Delete(ctx, binding()); !apierrors.IsNotFound(err) {
		t.Errorf("unbinding again: %v", err)
	}
}
