package acctest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// Someone is a client of the hub that is not Terraform.
func Someone(t *testing.T) *Outsider { t.Helper(); return OutsiderOf(t, Acc.Hub) }

// OutsiderOf is a client of another hub or cluster.
func OutsiderOf(t *testing.T, process *testhub.Process) *Outsider {
	t.Helper()
	if process == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	client, err := hub.NewClient(kube.Connection{KubeconfigPath: process.Kubeconfig}, "someone",
		kube.DefaultRetryBudget)
	if err != nil {
		t.Fatal(err)
	}
	return &Outsider{T: t, Client: client}
}

// Outsider acts on objects beside Terraform: a person with kubectl, an agent, a
// controller.
type Outsider struct {
	T      *testing.T
	Client *kube.Client
}

// WithToken is a client with a token in place of the outsider's rights, as an
// agent's.
func (o *Outsider) WithToken(token string) *kube.Client {
	o.T.Helper()
	client, err := hub.NewClient(kube.Connection{Host: o.Client.Host(), CA: o.ca(), Token: token}, "agent",
		kube.DefaultRetryBudget)
	if err != nil {
		o.T.Fatal(err)
	}
	return client
}

func (o *Outsider) ca() string {
	o.T.Helper()
	ca, err := o.Client.CAData()
	if err != nil {
		o.T.Fatal(err)
	}
	return string(ca)
}

// OutsiderManager is the field manager of people with kubectl.
const OutsiderManager = "kubectl-edit"

// Context ends after a minute.
func (o *Outsider) Context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// do is for what takes a minute at most and has to succeed.
func (o *Outsider) do(what func(ctx context.Context) error) {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	if err := what(ctx); err != nil {
		o.T.Fatal(err)
	}
}

// Get reads an object that has to be there.
func (o *Outsider) Get(object kube.Object, namespace, name string) {
	o.T.Helper()
	o.do(func(ctx context.Context) error { return o.Client.Get(ctx, object, namespace, name) })
}

// Exists reports whether the object is there.
func (o *Outsider) Exists(object kube.Object, namespace, name string) (exists bool) {
	o.T.Helper()
	o.do(func(ctx context.Context) error {
		err := o.Client.Get(ctx, object, namespace, name)
		if exists = err == nil; kube.IsNotFound(err, name) {
			return nil
		}
		return err
	})
	return exists
}

// Patch sends a merge patch.
func (o *Outsider) Patch(object kube.Object, namespace, name string, patch string) {
	o.T.Helper()
	object.SetNamespace(namespace)
	object.SetName(name)
	o.do(func(ctx context.Context) error {
		return o.Client.MergePatch(ctx, object, OutsiderManager, json.RawMessage(patch))
	})
}

// Apply takes over what it sets.
func (o *Outsider) Apply(object kube.Object) {
	o.T.Helper()
	o.do(func(ctx context.Context) error {
		return o.Client.Apply(ctx, object, kube.ApplyOptions{Manager: OutsiderManager, Force: true})
	})
}

// applyAll is Apply for the objects of a text with YAML, with a blank line between them.
func (o *Outsider) applyAll(text string) {
	o.T.Helper()
	codecs := serializer.NewCodecFactory(hub.NewScheme())
	for _, document := range strings.Split(text, "\n\n") {
		raw, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			o.T.Fatal(err)
		}
		object, _, err := codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			o.T.Fatal(err)
		}
		o.Apply(object.(kube.Object))
	}
}

// Remove deletes an object and waits until it is gone.
func (o *Outsider) Remove(object kube.Object, namespace, name string) {
	o.T.Helper()
	o.do(func(ctx context.Context) error { return o.Client.DeleteAndWait(ctx, object, namespace, name) })
}

// Wait waits until an object is as done says.
func (o *Outsider) Wait(object kube.Object, namespace, name string, done func() bool) {
	o.T.Helper()
	o.do(func(ctx context.Context) error {
		return o.Client.Wait(ctx, object, namespace, name, func(exists bool) (bool, error) {
			return exists && done(), nil
		})
	})
}

// updateStatus writes the status of an object that was read.
func (o *Outsider) updateStatus(object kube.Object) {
	o.T.Helper()
	o.do(func(ctx context.Context) error {
		return o.Client.UpdateSubresource(ctx, object, "status", OutsiderManager)
	})
}

// Namespace makes a namespace for a test.
func (o *Outsider) Namespace(name string) {
	o.T.Helper()
	object := &corev1.Namespace{}
	object.Name = name
	o.Apply(object)
	o.T.Cleanup(func() {
		ctx, cancel := o.Context()
		defer cancel()
		_, _ = o.Client.Delete(ctx, &corev1.Namespace{}, "", name, "")
	})
}

// Joined plays an agent that has joined: it reports conditions of a managed cluster.
func (o *Outsider) Joined(name string) {
	o.T.Helper()
	object := &clusterv1.ManagedCluster{}
	o.Get(object, "", name)
	for _, condition := range []string{cluster.ConditionJoined, cluster.ConditionAvailable} {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: "Test", Message: "by the test",
			LastTransitionTime: metav1.Now(),
		})
	}
	o.updateStatus(object)
}

// Identity makes a service account that may do what rules say and nothing else. It
// returns the provider block of a Terraform that acts as that account.
func (o *Outsider) Identity(name string, rules ...rbacv1.PolicyRule) string {
	o.T.Helper()
	const namespace = "default"
	account, role := &corev1.ServiceAccount{}, &rbacv1.ClusterRole{Rules: rules}
	account.Namespace, account.Name, role.Name = namespace, name, name
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	binding.Name = name
	for _, object := range []kube.Object{account, role, binding} {
		o.Apply(object)
	}
	request := &authenticationv1.TokenRequest{}
	o.do(func(ctx context.Context) error { return o.Client.CreateSubresource(ctx, account, "token", request) })
	return fmt.Sprintf("provider \"muster\" {\n  host = %q\n  cluster_ca_certificate = %q\n  token = %q\n}\n",
		o.Client.Host(), o.ca(), request.Status.Token)
}

// World makes objects of every kind but access requests, which end by themselves,
// with kubectl, all named after a test. It has the clusters NAME-a, which has joined the
// set NAME, and NAME-b, which is not accepted.
func World(t *testing.T, name string) *Outsider {
	t.Helper()
	someone, id := Someone(t), name[:6]
	named := strings.NewReplacer("BASE64", base64.StdEncoding.EncodeToString([]byte(id)), "TOKEN", id, "NAME", name)
	someone.Namespace(name)
	someone.applyAll(named.Replace(fleet))
	someone.Wait(&corev1.Namespace{}, "", name+"-a", func() bool { return true })
	for _, set := range []string{cluster.DefaultSet, cluster.GlobalSet} {
		someone.Wait(&clusterv1beta2.ManagedClusterSet{}, "", set, func() bool { return true })
	}
	someone.applyAll(named.Replace(inFleet))
	someone.Joined(name + "-a")
	score := &clusterv1alpha1.AddOnPlacementScore{}
	someone.Get(score, name+"-a", "latency")
	score.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "ms", Value: 12}}
	someone.updateStatus(score)
	return someone
}

// fleet is what a world has before the hub has made the namespaces of its clusters.
const fleet = `
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, spec: {hubAcceptsClient: true},
 metadata: {name: NAME-a, labels: {cluster.open-cluster-management.io/clusterset: NAME, env: test}}}

{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: NAME-b}}

{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: NAME}}

{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSetBinding, spec: {clusterSet: NAME},
 metadata: {namespace: NAME, name: NAME}}

{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, spec: {clusterSets: [NAME]},
 metadata: {namespace: NAME, name: where}}

{apiVersion: v1, kind: Secret, type: bootstrap.kubernetes.io/token,
 metadata: {namespace: kube-system, name: bootstrap-token-TOKEN},
 data: {token-id: BASE64, token-secret: MDEyMzQ1Njc4OWFiY2RlZg==, usage-bootstrap-authentication: dHJ1ZQ==,
  auth-extra-groups: c3lzdGVtOmJvb3RzdHJhcHBlcnM6bWFuYWdlZGNsdXN0ZXI=}}
`

// inFleet is the rest of a world.
const inFleet = `
{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {namespace: NAME-a, name: web},
 spec: {workload: {manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: x}}]}}}

{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork,
 metadata: {namespace: NAME-a, name: made, labels: {work.open-cluster-management.io/manifestworkreplicaset: some.set}},
 spec: {workload: {manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: x}}]}}}

{apiVersion: work.open-cluster-management.io/v1alpha1, kind: ManifestWorkReplicaSet,
 metadata: {namespace: NAME, name: everywhere}, spec: {placementRefs: [{name: nowhere}], manifestWorkTemplate:
  {workload: {manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: x}}]}}}}

{apiVersion: cluster.open-cluster-management.io/v1alpha1, kind: AddOnPlacementScore,
 metadata: {namespace: NAME-a, name: latency}}

{apiVersion: muster-fleet.io/v1alpha1, kind: AccessRole, metadata: {name: NAME},
 rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}

{apiVersion: muster-fleet.io/v1alpha1, kind: LogicalCloud, metadata: {namespace: NAME, name: cloud},
 spec: {placements: [{name: nowhere}], namespace: {name: NAME-cloud}, grants: [{role: NAME, users: [jo]}]}}

{apiVersion: muster-fleet.io/v1alpha1, kind: ClusterImport, metadata: {name: NAME-c},
 spec: {kubeconfigSecret: NAME, labels: {env: test}, redeploy: 1}}

{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: AddOnDeploymentConfig,
 metadata: {namespace: NAME, name: settings}, spec: {customizedVariables: [{name: LEVEL, value: info}]}}

{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: AddOnTemplate, metadata: {name: NAME},
 spec: {addonName: NAME, agentSpec:
  {workload: {manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: x}}]}}}}

{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ClusterManagementAddOn, metadata: {name: NAME},
 spec: {addOnMeta: {displayName: NAME}}}

{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ManagedClusterAddOn,
 metadata: {namespace: NAME-a, name: by-hand}, spec: {installNamespace: agents}}
`
