package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// groups are the values of the label that sets choose clusters by. Each has a placement
// of its name.
var groups = []string{"a", "b"}

// addOnName is the add-on that users switch on and off, cluster by cluster.
const addOnName = "lab"

// prepare makes the placements that sets refer to, and the add-on.
func (l *lab) prepare() {
	template := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: addOnName}}
	template.Spec.AddonName = addOnName
	template.Spec.AgentSpec.Workload.Manifests = content{addOnName + "-addon": "on"}.manifests()
	l.create(template)
	addOn := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: addOnName}}
	addOn.Spec.SupportedConfigs = []addonv1alpha1.ConfigMeta{{
		ConfigGroupResource: addonv1alpha1.ConfigGroupResource{
			Group: addon.GroupName, Resource: addon.TemplateResource,
		},
		DefaultConfig: &addonv1alpha1.ConfigReferent{Name: addOnName},
	}}
	l.create(addOn)
	l.create(&clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: cluster.GlobalSet},
		Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: cluster.GlobalSet},
	})
	for _, group := range groups {
		p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: group}}
		p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: group}},
		}}}
		l.create(p)
	}
}

// write lets a user write something.
func (l *lab) write() {
	switch n := l.rand.IntN(14); {
	case n < 6:
		l.writeWork()
	case n < 8:
		l.writeSet()
	case n < 10:
		l.writeAddOn()
	case n < 12:
		l.writeCloud()
	default:
		l.writeGroup()
	}
}

// member is the one that a write is for: mostly one that is in trouble.
func (l *lab) member() *member {
	m := l.members[l.rand.IntN(len(l.members))]
	if l.troubled != nil && l.rand.IntN(3) > 0 {
		return l.troubled
	}
	return m
}

func (l *lab) pick(of []string) string { return of[l.rand.IntN(len(of))] }

// newContent makes up what a work puts into its cluster.
func (l *lab) newContent(name string) content {
	c := content{}
	for i := range 1 + l.rand.IntN(3) {
		l.written++
		c[fmt.Sprintf("%s-%d", name, i)] = strconv.Itoa(l.written)
	}
	return c
}

func (c content) manifests() (manifests []workv1.Manifest) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		raw, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{
				"namespace": "default", "name": name, "labels": map[string]string{labLabel: "true"},
			},
			"data": map[string]string{"value": c[name]},
		})
		if err != nil {
			panic(err) // only strings
		}
		manifests = append(manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return manifests
}

func (l *lab) writeWork() {
	in, name := l.member().name, "w"+strconv.Itoa(l.rand.IntN(6))
	c := l.newContent(in + "-" + name)
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name}}
	l.put("work "+in+"/"+name, c.String(), mw, func() { mw.Spec.Workload.Manifests = c.manifests() })
}

func (l *lab) writeSet() {
	name, group := "s"+strconv.Itoa(l.rand.IntN(3)), l.pick(groups)
	c := l.newContent(name)
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: name}}
	l.put("set "+name, group+": "+c.String(), set, func() {
		set.Spec.ManifestWorkTemplate.Workload.Manifests = c.manifests()
		set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{
			Name: group, RolloutStrategy: clusterv1alpha1.RolloutStrategy{
				Type:        clusterv1alpha1.RolloutTypeProgressive,
				Progressive: &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromInt32(1)},
			},
		}}
	})
}

func (l *lab) writeAddOn() {
	in := l.member().name
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: addOnName}}
	l.put("add-on "+in, "on", a, func() {})
}

// writeGroup moves a cluster to a group.
func (l *lab) writeGroup() {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: l.member().name}}
	group, name := l.pick(groups), "group "+mc.Name
	ctx := context.Background()
	if err := l.user.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil || mc.Labels[groupLabel] == group {
		l.note("%s: not written: %v", name, err)
		return
	}
	mc.Labels[groupLabel] = group
	l.wrote(name, group, l.user.Update(ctx, mc))
}

// put creates what is not there, and otherwise updates it or, once in three times,
// deletes it.
func (l *lab) put(name, value string, o client.Object, fill func()) {
	ctx := context.Background()
	remove := l.rand.IntN(3) == 0
	err := l.user.Get(ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err):
		fill()
		l.wrote(name, value, l.user.Create(ctx, o))
	case err != nil || !o.GetDeletionTimestamp().IsZero():
		l.note("%s: not written: %v", name, err)
	case remove:
		uid, version := o.GetUID(), o.GetResourceVersion()
		l.wrote(name, "", l.user.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version}))
	default:
		fill()
		l.wrote(name, value, l.user.Update(ctx, o))
	}
}

// wrote notes what became of a write.
func (l *lab) wrote(name, value string, err error) {
	became := done
	switch reason := apierrors.ReasonForError(err); {
	case err == nil:
	case reason == metav1.StatusReasonConflict, reason == metav1.StatusReasonAlreadyExists,
		reason == metav1.StatusReasonNotFound, reason == metav1.StatusReasonTooManyRequests:
		became = refused
	default:
		became = unknown
	}
	l.model.write(l.round, name, value, became)
	l.note("%s: %q: %v", name, value, err)
}
