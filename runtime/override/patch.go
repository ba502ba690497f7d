package override

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// kubernetesKinds are Kubernetes' own kinds, whose types say by which keys a strategic patch
// merges lists.
var kubernetesKinds = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionv1.AddToScheme,
		appsv1.AddToScheme,
		autoscalingv1.AddToScheme,
		autoscalingv2.AddToScheme,
		batchv1.AddToScheme,
		coordinationv1.AddToScheme,
		corev1.AddToScheme,
		discoveryv1.AddToScheme,
		networkingv1.AddToScheme,
		policyv1.AddToScheme,
		rbacv1.AddToScheme,
		schedulingv1.AddToScheme,
		storagev1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
})

// patch is an override of manifests that was read.
type patch struct {
	field     string
	clusters  *scheduling.Compiled
	manifests v1alpha1.ManifestSelector
	kind      v1alpha1.OverridePatch
	raw       []byte
	// operations are those of a JSON patch.
	operations jsonpatch.Patch
}

func readPatch(field string, v v1alpha1.ManifestOverride) (patch, error) {
	switch v.Type {
	case v1alpha1.PatchJSON, v1alpha1.PatchMerge, v1alpha1.PatchStrategic:
	default:
		return patch{}, fmt.Errorf("%s.type: %q is none of JSON, Merge and Strategic", field, v.Type)
	}
	if v.Manifests.Kind == "" {
		return patch{}, fmt.Errorf(
			"%s.manifests.kind: name the kind of the manifests to change, such as Deployment",
			field,
		)
	}
	p := patch{field: field, manifests: v.Manifests, kind: v.Type, raw: v.Patch.Raw}
	if len(p.raw) > maxPatch {
		return p, fmt.Errorf("%s.patch has %d bytes, and may have %d: split it", field, len(p.raw), maxPatch)
	}
	if err := p.parse(); err != nil {
		return p, fmt.Errorf("%s.patch: %w", field, err)
	}
	one := clusterv1beta1.ClusterPredicate{RequiredClusterSelector: v.ClusterSelector}
	selects := &clusterv1beta1.Placement{}
	selects.Spec.Predicates = []clusterv1beta1.ClusterPredicate{one}
	p.clusters = scheduling.Compile(selects, scheduling.Options{Expressions: selectors})
	if problems := p.clusters.Problems(); len(problems) > 0 {
		return p, fmt.Errorf(
			"%s.clusterSelector: %s",
			field,
			strings.TrimPrefix(problems[0].Message, "spec.predicates[0]."),
		)
	}
	return p, nil
}

// parse checks that the patch is one of its kind.
func (p *patch) parse() error {
	if p.kind != v1alpha1.PatchJSON {
		var object map[string]any
		if err := json.Unmarshal(p.raw, &object); err != nil || object == nil {
			return fmt.Errorf("a patch of the type %s has to be an object with the fields to change", p.kind)
		}
		return nil
	}
	var err error
	if p.operations, err = jsonpatch.DecodePatch(p.raw); err != nil {
		return fmt.Errorf(`a patch of the type JSON has to be a list of operations, such as `+
			`[{"op":"replace","path":"/spec/replicas","value":2}]: %w`, err)
	}
	if len(p.operations) > maxOperations {
		return fmt.Errorf("it has %d operations, and may have %d: split it", len(p.operations), maxOperations)
	}
	for i, operation := range p.operations {
		if path, err := operation.Path(); err != nil || path != "" && path[0] != '/' {
			return fmt.Errorf(`[%d].path: %q has to begin with /, such as /spec/replicas`, i, path)
		}
	}
	return nil
}

// selects reports whether a manifest of the set is to be changed.
func (p *patch) selects(m *unstructured.Unstructured) bool {
	is := func(want *string, have string) bool { return want == nil || *want == have }
	return p.manifests.Kind == m.GetKind() && is(p.manifests.Group, m.GroupVersionKind().Group) &&
		is(p.manifests.Namespace, m.GetNamespace()) && is(p.manifests.Name, m.GetName())
}

// wanted says what a patch selects.
func (p *patch) wanted() string {
	words := []string{"kind " + p.manifests.Kind}
	for _, field := range []struct {
		name string
		want *string
	}{{"group", p.manifests.Group}, {"namespace", p.manifests.Namespace}, {"name", p.manifests.Name}} {
		if field.want != nil {
			words = append(words, fmt.Sprintf("%s %q", field.name, *field.want))
		}
	}
	return strings.Join(words, ", ")
}

// fits checks that the patch can be applied to a manifest of a kind.
func (p *patch) fits(m *unstructured.Unstructured) error {
	if p.kind == v1alpha1.PatchStrategic && !kubernetesKinds().Recognizes(m.GroupVersionKind()) {
		return fmt.Errorf("%s.type: Strategic is for Kubernetes' own kinds, and %s (%s) is none: choose Merge or JSON",
			p.field, m.GetKind(), m.GetAPIVersion())
	}
	return nil
}

// matches reports whether a cluster gets the patch.
func (p *patch) matches(ctx context.Context, c *subject) (bool, error) {
	verdict, err := p.clusters.Judge(ctx, c.View, nil)
	if err == nil && verdict.Costly != "" {
		err = fmt.Errorf("an expression of %s.clusterSelector costs too much for this cluster", p.field)
	}
	return verdict.Matches, err
}

// apply changes a manifest, which becomes no larger than limit bytes.
func (p *patch) apply(m []byte, kind *unstructured.Unstructured, limit int) (out []byte, err error) {
	switch p.kind {
	case v1alpha1.PatchJSON:
		options := jsonpatch.NewApplyOptions()
		options.AccumulatedCopySizeLimit = int64(limit)
		out, err = p.operations.ApplyWithOptions(m, options)
	case v1alpha1.PatchMerge:
		out, err = jsonpatch.MergePatch(m, p.raw)
	default:
		object, unknown := kubernetesKinds().New(kind.GroupVersionKind())
		if unknown != nil {
			return nil, fmt.Errorf("%s.patch: %w", p.field, unknown)
		}
		out, err = strategicpatch.StrategicMergePatch(m, p.raw, object)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf(
			"%s.patch cannot be applied to the %s %s: %w",
			p.field,
			kind.GetKind(),
			kind.GetName(),
			err,
		)
	case len(out) > limit:
		return nil, fmt.Errorf("%s.patch makes the %s %s larger than the %d bytes that a work may have", p.field,
			kind.GetKind(), kind.GetName(), limit)
	}
	return out, nil
}
