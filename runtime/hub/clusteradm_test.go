package hub_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// These tests send what clusteradm sends for each of its commands, and look at
// what it depends on or prints.

// hubCheck is what every command for hubs begins with.
func hubCheck(t testing.TB, k kubernetes.Interface) {
	t.Helper()
	list, err := k.Discovery().ServerResourcesForGroupVersion("cluster.open-cluster-management.io/v1")
	must(t, err)
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
	must(t, err)
	return request.Status.Token
}

func TestClusteradmGetTokenUsesTheNewestBootstrapToken(t *testing.T) {
	c := clientFor(t, admin)
	secret, _ := annotatedToken(t, cluster.BootstrapGroup, nil)
	secret.Labels = map[string]string{"app": "cluster-manager"}
	must(t, c.Update(context.Background(), secret))
	list, err := clientsetFor(t, admin).CoreV1().Secrets("kube-system").List(context.Background(), metav1.ListOptions{LabelSelector: "app = cluster-manager"})
	must(t, err)
	if !slices.ContainsFunc(list.Items, func(s corev1.Secret) bool {
		return s.Name == secret.Name && strings.HasPrefix(s.Name, "bootstrap-token-") && len(s.Data["token-id"]) == 6 && len(s.Data["token-secret"]) == 16
	}) {
		t.Errorf("%s is not among %d", secret.Name, len(list.Items))
	}
}

func TestClusteradmJoinFindsItsWay(t *testing.T) {
	ctx := context.Background()
	for kind, token := range map[string]string{
		"a service account's token": serviceAccountToken(t),
		"a bootstrap token":         bootstrapToken(t, cluster.BootstrapGroup),
	} {
		t.Run(kind, func(t *testing.T) {
			// Without knowing the hub's authority, it asks for it.
			insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as clusteradm does
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, admin.Host+"/api/v1/namespaces/kube-public/configmaps/cluster-info", nil)
			must(t, err)
			request.Header.Set("Authorization", "Bearer "+token)
			response, err := insecure.Do(request)
			must(t, err)
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			must(t, err)
			info := &corev1.ConfigMap{}
			must(t, json.Unmarshal(body, info))
			config, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
			must(t, err)
			if len(config.Clusters) != 1 {
				t.Fatalf("%d clusters in the cluster-info, want 1", len(config.Clusters))
			}
			for _, x := range config.Clusters {
				if x.Server != admin.Host || len(x.CertificateAuthorityData) == 0 {
					t.Errorf("the cluster-info leads to %s", x.Server)
				}
			}
			// With it, it looks at the hub, and waits for the agent's first sign.
			k := clientsetFor(t, withToken(token))
			_, err = k.Discovery().ServerVersion()
			must(t, err)
			hubCheck(t, k)
			name := clusterName(t, "adm-join")
			watcher, err := client.NewWithWatch(withToken(token), client.Options{Scheme: clientFor(t, admin).Scheme(), Mapper: clientFor(t, admin).RESTMapper()})
			must(t, err)
			w, err := watcher.Watch(ctx, &clusterv1.ManagedClusterList{}, client.MatchingFields{"metadata.name": name})
			must(t, err)
			defer w.Stop()
			must(t, clientFor(t, withToken(token)).Create(ctx, newCluster(name)))
			if e := <-w.ResultChan(); e.Object.(*clusterv1.ManagedCluster).Name != name {
				t.Errorf("the first event is about %+v", e.Object)
			}
		})
	}
}

func TestClusteradmAccept(t *testing.T) {
	ctx := context.Background()
	k, c := clientsetFor(t, admin), clientFor(t, admin)
	for kind, x := range map[string]struct {
		token         string
		user, inGroup string
	}{
		"a service account's token": {serviceAccountToken(t), "system:serviceaccount:open-cluster-management:agent-registration-bootstrap", "system:serviceaccounts:open-cluster-management"},
		"a bootstrap token":         {bootstrapToken(t, cluster.BootstrapGroup), "system:bootstrap:", "system:bootstrappers:managedcluster"},
	} {
		t.Run(kind, func(t *testing.T) {
			name := clusterName(t, "adm-accept")
			bootstrap := clientFor(t, withToken(x.token))
			must(t, bootstrap.Create(ctx, newCluster(name)))
			r, key := certificateRequest(t, name, "a")
			must(t, bootstrap.Create(ctx, r))

			hubCheck(t, k)
			must(t, c.Get(ctx, types.NamespacedName{Name: name}, newCluster(name)))
			list, err := k.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: cluster.NameLabel + " = " + name})
			must(t, err)
			if len(list.Items) != 1 {
				t.Fatalf("%d requests", len(list.Items))
			}
			request := &list.Items[0]
			// Without both of these it approves nothing.
			if !strings.HasPrefix(request.Spec.Username, x.user) || !slices.Contains(request.Spec.Groups, x.inGroup) {
				t.Errorf("the requester is %s of %q", request.Spec.Username, request.Spec.Groups)
			}
			request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
				Reason: "clusteradm Approve", Message: "This CSR was approved by clusteradm certificate approve.",
			})
			_, err = k.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, request.Name, request, metav1.UpdateOptions{})
			must(t, err)
			must(t, c.Patch(ctx, newCluster(name), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hubAcceptsClient":true}}`))))

			agent := clientFor(t, withCertificate(certificate(t, r.Name), key))
			testenv.Eventually(t, func() error { return agent.Get(ctx, types.NamespacedName{Name: name}, newCluster(name)) })
		})
	}
}

func TestClusteradmClusterSets(t *testing.T) {
	ctx := context.Background()
	c := clientFor(t, admin)
	name, namespace := clusterName(t, "adm-set"), testenv.Namespace(t, c)
	must(t, c.Create(ctx, newCluster(name)))
	s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "adm-" + name}}
	must(t, c.Create(ctx, s))
	t.Cleanup(func() { _ = c.Delete(ctx, s) })

	// set: the cluster as it is read, with another label, is put back. A
	// controller may be quicker, and then it is told so.
	testenv.Eventually(t, func() error {
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
	must(t, c.Update(ctx, s))
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
	must(t, c.Create(ctx, binding()))
	if err := c.Create(ctx, binding()); !apierrors.IsAlreadyExists(err) {
		t.Errorf("binding again: %v", err)
	}
	must(t, c.Delete(ctx, binding()))
	if err := c.Delete(ctx, binding()); !apierrors.IsNotFound(err) {
		t.Errorf("unbinding again: %v", err)
	}
}

// get clusters, works, placements and addon are lists, with what the program
// reads of each object in its place.
func TestClusteradmGet(t *testing.T) {
	ctx := context.Background()
	c, k := clientFor(t, admin), clientsetFor(t, admin)
	name, namespace := clusterName(t, "adm-get"), testenv.Namespace(t, c)
	acceptedCluster(t, c, name)
	available(t, name, metav1.ConditionTrue)

	clusters := &clusterv1.ManagedClusterList{}
	must(t, c.List(ctx, clusters, client.MatchingLabels{cluster.ClusterSetLabel: "default"}))
	if !slices.ContainsFunc(clusters.Items, func(mc clusterv1.ManagedCluster) bool { return mc.Name == name }) {
		t.Error("the cluster is not in the default set")
	}

	w := newWork(configMapManifest("a"))
	w.Namespace, w.Name = name, "w"
	must(t, c.Create(ctx, w))
	works := &workv1.ManifestWorkList{}
	must(t, c.List(ctx, works, client.InNamespace(name), client.MatchingFields{"metadata.name": "w"}))
	if len(works.Items) != 1 || len(works.Items[0].Spec.Workload.Manifests) != 1 {
		t.Errorf("works %+v", works.Items)
	}

	// A placement without conditions makes the program end: its first column is
	// that of the first one.
	placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
	must(t, c.Create(ctx, placement))
	eventually(t, placement, func(p *clusterv1beta1.Placement) error {
		if len(p.Status.Conditions) == 0 || p.Status.Conditions[0].Type != "PlacementMisconfigured" || p.Status.Conditions[0].Reason != "Succeedconfigured" {
			return fmt.Errorf("conditions %+v", p.Status.Conditions)
		}
		return nil
	})
	placements := &clusterv1beta1.PlacementList{}
	must(t, c.List(ctx, placements, client.MatchingFields{"metadata.name": "p"}))
	must(t, c.List(ctx, &clusterv1beta1.PlacementDecisionList{}, client.HasLabels{"cluster.open-cluster-management.io/placement"}))

	for _, version := range []string{"v1alpha1", "v1beta1"} { // the program reads the first, upstream's agents the second
		list, err := k.Discovery().ServerResourcesForGroupVersion("addon.open-cluster-management.io/" + version)
		must(t, err)
		for _, want := range []string{"clustermanagementaddons", "managedclusteraddons", "managedclusteraddons/status"} {
			if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == want }) {
				t.Errorf("%s is not served in %s", want, version)
			}
		}
	}
}
