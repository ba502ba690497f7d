package configuration

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
)

// newObject is an empty configuration object of a kind, without a Go type: its hash
// is that of what is on the wire.
func newObject(kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	return o
}

// object is what there is to know of a configuration object.
type object struct {
	found      bool
	hash       string
	generation int64
}

// objects are the configuration objects of an add-on from a template, as they are
// in one pass.
type objects struct {
	read  func(kind string, key types.NamespacedName) (object, error)
	known map[v1alpha1.AddOnConfig]object
}

func newObjects(ctx context.Context, r client.Reader) *objects {
	read := func(kind string, key types.NamespacedName) (object, error) {
		o := newObject(kind)
		if err := r.Get(ctx, key, o, client.UnsafeDisableDeepCopy); err != nil {
			return object{}, client.IgnoreNotFound(err)
		}
		hash, err := configs.Hash(o.Object)
		return object{found: true, hash: hash, generation: o.GetGeneration()}, err
	}
	return &objects{read: read, known: map[v1alpha1.AddOnConfig]object{}}
}

// get is a configuration object; understood is whether its kind is one of an add-on
// from a template.
func (o *objects) get(c v1alpha1.AddOnConfig) (out object, understood bool, err error) {
	if !slices.Contains(configs.TemplateKinds(), c.ConfigGroupResource) {
		return out, false, nil
	}
	out, known := o.known[c]
	if known {
		return out, true, nil
	}
	// An object without a namespace is found under none, and one with a namespace
	// under no other.
	if namespaced := c.Resource == addon.DeploymentConfigResource; namespaced == (c.Namespace != "") {
		key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		if out, err = o.read(addons.KindOf(c.Resource), key); err != nil {
			return out, true, fmt.Errorf("read the %s %s: %w", c.Resource, key, err)
		}
	}
	o.known[c] = out
	return out, true, nil
}

// hash hashes the configurations of a ClusterManagementAddOn from a template. An
// object that does not exist has no hash.
func (s snapshot) hash(status *v1alpha1.ClusterManagementAddOnStatus) (err error) {
	if s.objects == nil {
		return nil
	}
	configs.SetHashes(status, func(c v1alpha1.AddOnConfig) (string, bool) {
		o, understood, problem := s.objects.get(c)
		if problem != nil {
			err = problem
		}
		return o.hash, understood && problem == nil
	})
	return err
}

// wanted are the configurations that count for a ManagedClusterAddOn. Hashes of its
// own are those of its status, where its manager has put them.
func (s snapshot) wanted(x *v1alpha1.ManagedClusterAddOn, base configs.Set) (configs.Set, error) {
	var problem error
	known := configs.KnownTo(x)
	want := configs.For(x, base, func(c v1alpha1.AddOnConfig) string {
		if s.objects != nil {
			o, _, err := s.objects.get(c)
			if err != nil {
				problem = err
			}
			if o.found {
				return o.hash
			}
		}
		return known(c)
	})
	return want, problem
}

// refreshed is a ManagedClusterAddOn from a template, with what its manager writes by
// itself: the generations of its configurations, and the hashes of those of its
// spec, whose changes wait for no rollout. Objects that do not exist leave what is
// there. Others are returned as they are.
func (s snapshot) refreshed(x *v1alpha1.ManagedClusterAddOn) (*v1alpha1.ManagedClusterAddOn, error) {
	if s.objects == nil || len(x.Status.ConfigReferences) == 0 {
		return x, nil
	}
	out := *x // all but the references is shared
	out.Status.ConfigReferences = nil
	for i := range x.Status.ConfigReferences {
		out.Status.ConfigReferences = append(out.Status.ConfigReferences, *x.Status.ConfigReferences[i].DeepCopy())
	}
	for i := range out.Status.ConfigReferences {
		r := &out.Status.ConfigReferences[i]
		if r.DesiredConfig == nil {
			continue
		}
		c := v1alpha1.AddOnConfig{ConfigGroupResource: r.ConfigGroupResource, ConfigReferent: r.DesiredConfig.ConfigReferent}
		o, _, err := s.objects.get(c)
		if err != nil {
			return nil, err
		}
		if o.found && slices.Contains(x.Spec.Configs, c) {
			r.DesiredConfig.SpecHash = o.hash
		}
	}
	return &out, s.observe(out.Status.ConfigReferences)
}

// observe notes the generations of configuration objects, for an add-on from a
// template.
func (s snapshot) observe(references []v1alpha1.ConfigReference) error {
	if s.objects == nil {
		return nil
	}
	for i := range references {
		d := references[i].DesiredConfig
		if d == nil {
			continue
		}
		o, _, err := s.objects.get(v1alpha1.AddOnConfig{ConfigGroupResource: references[i].ConfigGroupResource, ConfigReferent: d.ConfigReferent})
		if err != nil {
			return err
		}
		if o.found {
			references[i].LastObservedGeneration = o.generation
		}
	}
	return nil
}
