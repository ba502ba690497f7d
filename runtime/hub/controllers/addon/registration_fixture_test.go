package addon_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/registration"
)

// fleet is one add-on from a template. The tests play the controllers that install
// and configure it.
type registrationFleet struct {
	*testworld.World
	writes *testkit.Writes
	// name is that of the add-on, and of its template.
	name       string
	controller reconcile.Reconciler
}

func newRegistrationFleet(t testing.TB) *registrationFleet {
	t.Helper()
	c, writes := env.Counting(t)
	f := &registrationFleet{World: env.World(t), writes: writes}
	f.name = f.Namespace()
	admin := env.Config("muster-test-counting")
	admin.Wrap(writes.Wrap)
	as, err := addons.NewManager(admin, client.Options{Scheme: c.Scheme(), Mapper: c.RESTMapper()})
	f.Must(err)
	registering := registration.NewController(c, c, c, as, clocktesting.NewFakePassiveClock(noon))
	f.controller = addoncontrollers.NewStages(c, registering)
	f.Make(&v1alpha1.ClusterManagementAddOn{
		ObjectMeta: metav1.ObjectMeta{Name: f.name},
		Spec: v1alpha1.ClusterManagementAddOnSpec{SupportedConfigs: []v1alpha1.ConfigMeta{
			{ConfigGroupResource: templates, DefaultConfig: &v1alpha1.ConfigReferent{Name: f.name}},
		}},
	})
	return f
}

var (
	templates         = v1alpha1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addontemplates"}
	deploymentConfigs = v1alpha1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addondeploymentconfigs"}
)

// template makes the add-on's template.
func (f *registrationFleet) template(registrations ...v1alpha1.RegistrationSpec) *v1alpha1.AddOnTemplate {
	f.Helper()
	t := &v1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	t.Spec.AddonName = f.name
	t.Spec.Registration = registrations
	f.Make(t)
	return t
}

// cluster makes a cluster with the add-on, and returns the cluster's name.
func (f *registrationFleet) cluster() string {
	f.Helper()
	name := f.Namespace()
	f.Make(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}})
	f.install(name)
	return name
}

func (f *registrationFleet) definition() *v1alpha1.ClusterManagementAddOn {
	f.Helper()
	a := &v1alpha1.ClusterManagementAddOn{}
	f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.name}, a))
	return a
}

func (f *registrationFleet) install(cluster string) {
	f.Helper()
	f.Make(&v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: f.name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "addon.open-cluster-management.io/v1beta1", Kind: "ClusterManagementAddOn", Name: f.name, UID: f.definition().UID},
	}}})
}

func (f *registrationFleet) addOn(cluster string) *v1alpha1.ManagedClusterAddOn {
	f.Helper()
	a := &v1alpha1.ManagedClusterAddOn{}
	f.Must(f.Get(context.Background(), f.key(cluster), a))
	return a
}

func (f *registrationFleet) key(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster, Name: f.name}
}

// says changes the add-on's status in a cluster.
func (f *registrationFleet) says(cluster string, change func(*v1alpha1.ManagedClusterAddOnStatus)) {
	f.Helper()
	a := f.addOn(cluster)
	f.ReportOn(a, func() { change(&a.Status) })
}

// configure plays the controller that says which objects count in a cluster: the
// template, and deployment configurations in the add-on's namespace. Those that exist
// have the hash of their content, and others none.
func (f *registrationFleet) configure(cluster string, names ...string) {
	f.Helper()
	references := []v1alpha1.ConfigReference{f.reference(templates, "AddOnTemplate", v1alpha1.ConfigReferent{Name: f.name})}
	for _, name := range names {
		references = append(references, f.reference(deploymentConfigs, "AddOnDeploymentConfig", v1alpha1.ConfigReferent{Namespace: f.name, Name: name}))
	}
	f.says(cluster, func(s *v1alpha1.ManagedClusterAddOnStatus) { s.ConfigReferences = references })
}

func (f *registrationFleet) reference(kind v1alpha1.ConfigGroupResource, kindName string, referent v1alpha1.ConfigReferent) v1alpha1.ConfigReference {
	f.Helper()
	r := v1alpha1.ConfigReference{ConfigGroupResource: kind, ConfigReferent: referent, DesiredConfig: &v1alpha1.ConfigSpecHash{ConfigReferent: referent}}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindName))
	if err := f.Get(context.Background(), types.NamespacedName{Namespace: referent.Namespace, Name: referent.Name}, o); err == nil {
		r.DesiredConfig.SpecHash, err = configs.Hash(o.Object)
		f.Must(err)
	}
	return r
}

// pass has the controller look at the add-on in a cluster until it writes nothing any
// more, or wants to try again later, and returns how often it wrote.
func (f *registrationFleet) pass(cluster string) int64 {
	f.Helper()
	before := f.writes.Count()
	for range 5 {
		var result reconcile.Result
		if f.writes.During(func() { result = f.Reconcile(f.controller, f.key(cluster)) }) == 0 || result.RequeueAfter > 0 {
			return f.writes.Count() - before
		}
	}
	f.Fatal("the controller writes again and again")
	return 0
}

func (f *registrationFleet) mustBeApplied(cluster, want string) {
	f.Helper()
	got := ""
	if c := meta.FindStatusCondition(f.addOn(cluster).Status.Conditions, "RegistrationApplied"); c != nil {
		got = strings.Join([]string{string(c.Status), c.Reason, c.Message}, "/")
	}
	if got != want && (want == "" || !strings.HasPrefix(got, want)) {
		f.Errorf("RegistrationApplied is %q, want %q", got, want)
	}
}

// registered are the registrations of the add-on in a cluster, as "signer=user".
func (f *registrationFleet) registered(cluster string) string {
	f.Helper()
	var out []string
	for _, r := range f.addOn(cluster).Status.Registrations {
		out = append(out, fmt.Sprintf("%s=%s", r.SignerName, strings.ReplaceAll(r.Subject.User, f.name, "ADDON")))
	}
	return strings.ReplaceAll(strings.Join(out, " "), cluster, "CLUSTER")
}

const (
	isApplied          = "True/SetPermissionApplied/Registration of the addon agent is configured"
	registrationForHub = "kubernetes.io/kube-apiserver-client=system:open-cluster-management:cluster:CLUSTER:addon:ADDON:agent:ADDON-agent"
)

func kubeClient(permissions ...v1alpha1.HubPermissionConfig) v1alpha1.RegistrationSpec {
	r := v1alpha1.RegistrationSpec{Type: v1alpha1.RegistrationTypeKubeClient}
	if len(permissions) > 0 {
		r.KubeClient = &v1alpha1.KubeClientRegistrationConfig{HubPermissions: permissions}
	}
	return r
}

func signer(name string) v1alpha1.RegistrationSpec {
	return v1alpha1.RegistrationSpec{Type: v1alpha1.RegistrationTypeCustomSigner, CustomSigner: &v1alpha1.CustomSignerRegistrationConfig{
		SignerName: name, SigningCA: v1alpha1.SigningCARef{Name: "ca"},
	}}
}

func clusterNamed(name string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
