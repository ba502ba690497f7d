package page

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// clusters is how many the hub has.
const clusters = 10000

// evil is what a hostile cluster puts wherever it can.
const evil = `</bdi><script>document.title="evil"</script><img src=x onerror="document.title='evil'">`

// hub is the hub of all tests.
var hub struct {
	url    string
	config *rest.Config // the administrator's
	client client.Client
	// viewer may see the fleet, tenant the namespace shop alone.
	viewer, tenant string
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the hub:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "muster-page-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := (&testhub.Builder{}).Path(dir)
	if err != nil {
		return 1, err
	}
	process, err := testhub.StartHub(program, filepath.Join(dir, "hub"))
	if err != nil {
		return 1, err
	}
	defer func() { _ = process.Kill() }()
	if hub.config, err = clientcmd.BuildConfigFromFlags("", process.Kubeconfig); err != nil {
		return 1, err
	}
	hub.url, hub.config.QPS = hub.config.Host, -1
	hub.client, err = client.New(hub.config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		return 1, err
	}
	if err := fill(ctx); err != nil {
		return 1, fmt.Errorf("fill the hub: %w", err)
	}
	return m.Run(), nil
}

// fill makes the fleet: most clusters wait to be accepted, some are available, some silent.
func fill(ctx context.Context) error {
	shop := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	template := workv1.ManifestWorkSpec{}
	template.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"web"}}`)}}}
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "production"}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, set,
		&clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: set.Name},
			Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set.Name}},
		&clusterv1beta1.Placement{ObjectMeta: shop},
		&workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: shop, Spec: workv1alpha1.ManifestWorkReplicaSetSpec{
			PlacementRefs:        []workv1alpha1.LocalPlacementReference{{Name: "web"}},
			ManifestWorkTemplate: template,
		}},
	} {
		if err := hub.client.Create(ctx, o); err != nil {
			return err
		}
	}
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range clusters {
		group.Go(func() error { return addCluster(all, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var err error
	if hub.viewer, err = user(ctx, "viewer", "", "muster:fleet-view"); err == nil {
		hub.tenant, err = user(ctx, "tenant", "shop", "muster:fleet-view")
	}
	return err
}

func addCluster(ctx context.Context, i int) error {
	m := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("edge-%05d", i),
		Labels: map[string]string{"region": []string{"eu", "us", "ap"}[i%3]}}}
	accepted := i < 12
	if accepted {
		m.Labels[cluster.ClusterSetLabel] = "production"
		m.Spec.HubAcceptsClient = &accepted
	}
	if err := hub.client.Create(ctx, m); err != nil || !accepted {
		return err
	}
	now := metav1.NewTime(time.Now().Add(-90 * time.Minute).Truncate(time.Second))
	available := metav1.Condition{Type: cluster.ConditionAvailable, Status: metav1.ConditionTrue,
		Reason: "ManagedClusterAvailable", Message: "Managed cluster is available", LastTransitionTime: now}
	if i == 3 || i == 4 {
		available.Status, available.Reason = metav1.ConditionFalse, "ManagedClusterKubeAPIServerUnavailable"
		available.Message = "The kube-apiserver is not ok, status code: 500"
	}
	if i == 4 {
		available.Message = evil
	}
	before := m.DeepCopy()
	m.Status.Version.Kubernetes = "v1.37.1"
	m.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "id.k8s.io", Value: evil}}
	m.Status.Conditions = append(m.Status.Conditions, available, metav1.Condition{Type: cluster.ConditionJoined,
		Status: metav1.ConditionTrue, Reason: "ManagedClusterJoined", Message: "joined", LastTransitionTime: now})
	return hub.client.Status().Patch(ctx, m, client.MergeFrom(before))
}

// user makes a service account with a role, in a namespace or everywhere, and a token.
func user(ctx context.Context, name, namespace, role string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects: subjects, RoleRef: ref}
	if namespace != "" {
		binding = &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Subjects:   subjects,
			RoleRef:    ref,
		}
	}
	for _, o := range []client.Object{account, binding} {
		if err := hub.client.Create(ctx, o); err != nil {
			return "", err
		}
	}
	token := &authenticationv1.TokenRequest{}
	err := hub.client.SubResource("token").Create(ctx, account, token)
	return token.Status.Token, err
}
