package addons

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
)

// Source is what an add-on from a template is made of in a cluster. Nobody may change
// it.
type Source struct {
	Template *v1alpha1.AddOnTemplate
	// Config is the deployment configuration, nil for none.
	Config *v1alpha1.AddOnDeploymentConfig
	// Outdated says why the cluster does not get these, "" if it does: its turn in a
	// rollout has not come.
	Outdated string
}

// Sources remembers what add-ons are made of, for one pass over many clusters.
type Sources struct {
	objects client.Reader
	known   map[string]answer
}

type answer struct {
	source  *Source
	missing string
}

// NewSources reads with objects, which needs no Go types.
func NewSources(objects client.Reader) *Sources {
	return &Sources{objects: objects, known: map[string]answer{}}
}

// Of is SourceOf.
func (s *Sources) Of(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) (source *Source, missing string, err error) {
	var key strings.Builder
	for _, resource := range []string{addon.TemplateResource, addon.DeploymentConfigResource} {
		if r := firstReference(a, resource); r != nil && r.DesiredConfig != nil {
			fmt.Fprintf(&key, "%v", *r.DesiredConfig)
		}
		key.WriteByte(' ')
	}
	if have, ok := s.known[key.String()]; ok {
		return have.source, have.missing, nil
	}
	source, missing, err = SourceOf(ctx, s.objects, a)
	if err == nil {
		s.known[key.String()] = answer{source, missing}
	}
	return source, missing, err
}

// SourceOf reads what an add-on is made of in a cluster. It is nil as long as that is
// not known; missing then says what is waited for, in words.
func SourceOf(ctx context.Context, r client.Reader, a *v1alpha1.ManagedClusterAddOn) (s *Source, missing string, err error) {
	s, missing, err = TemplateOf(ctx, r, a)
	reference := firstReference(a, addon.DeploymentConfigResource)
	if s == nil || reference == nil {
		return s, missing, err
	}
	s.Config = &v1alpha1.AddOnDeploymentConfig{}
	missing, err = s.read(ctx, r, reference, s.Config)
	if err != nil || missing != "" {
		return nil, missing, err
	}
	return s, "", nil
}

// TemplateOf is SourceOf without the deployment configuration.
func TemplateOf(ctx context.Context, r client.Reader, a *v1alpha1.ManagedClusterAddOn) (s *Source, missing string, err error) {
	reference := firstReference(a, addon.TemplateResource)
	if reference == nil {
		return nil, "no AddOnTemplate is configured for it yet", nil
	}
	s = &Source{Template: &v1alpha1.AddOnTemplate{}}
	missing, err = s.read(ctx, r, reference, s.Template)
	if err != nil || missing != "" {
		return nil, missing, err
	}
	return s, "", nil
}

// Template is the name of the AddOnTemplate that counts for a ManagedClusterAddOn, ""
// for none.
func Template(a *v1alpha1.ManagedClusterAddOn) string {
	if r := firstReference(a, addon.TemplateResource); r != nil && r.DesiredConfig != nil {
		return r.DesiredConfig.Name
	}
	return ""
}

// firstReference is the first configuration of a kind: of several, the others don't
// count.
func firstReference(a *v1alpha1.ManagedClusterAddOn, resource string) *v1alpha1.ConfigReference {
	for i := range a.Status.ConfigReferences {
		r := &a.Status.ConfigReferences[i]
		if r.Group == addon.GroupName && r.Resource == resource {
			return r
		}
	}
	return nil
}

// byConfig is the index of ManagedClusterAddOns by the configuration objects that
// count for them.
const byConfig = "status.configReferences"

func configsOf(o client.Object) (out []string) {
	for _, r := range o.(*v1alpha1.ManagedClusterAddOn).Status.ConfigReferences {
		if d := r.DesiredConfig; d != nil {
			out = append(out, configKey(r.ConfigGroupResource, types.NamespacedName{Namespace: d.Namespace, Name: d.Name}))
		}
	}
	return out
}

func configKey(kind v1alpha1.ConfigGroupResource, key types.NamespacedName) string {
	return kind.Resource + "." + kind.Group + "/" + key.String()
}

// ConfiguredWith are requests for the ManagedClusterAddOns that a configuration object
// counts for.
func ConfiguredWith(ctx context.Context, r client.Reader, kind v1alpha1.ConfigGroupResource, key types.NamespacedName) []reconcile.Request {
	return watch.Matching[client.Object](ctx, r, &v1alpha1.ManagedClusterAddOnList{}, nil, client.MatchingFields{byConfig: configKey(kind, key)})
}

// WatchConfigurations has a controller of ManagedClusterAddOns follow the configuration
// objects of add-ons from templates: it looks at the add-ons that an object counts for.
func WatchConfigurations(b *builder.Builder, r client.Reader) *builder.Builder {
	for _, kind := range configs.TemplateKinds() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(KindOf(kind.Resource)))
		b = b.Watches(object, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return ConfiguredWith(ctx, r, kind, client.ObjectKeyFromObject(o))
		}), builder.WithPredicates(watch.Changed(ConfigurationChanged)))
	}
	return b
}

// ConfigurationChanged selects changes of what a configuration object says: of its spec, and
// of the override of a template.
func ConfigurationChanged(was, is client.Object) bool {
	return was.GetGeneration() != is.GetGeneration() ||
		was.GetAnnotations()[muster.OverrideAnnotation] != is.GetAnnotations()[muster.OverrideAnnotation]
}

// KindOf are the kinds of the configuration objects of add-ons from templates, by
// resource.
func KindOf(resource string) string {
	return map[string]string{addon.DeploymentConfigResource: "AddOnDeploymentConfig", addon.TemplateResource: "AddOnTemplate"}[resource]
}

// read reads a configuration object, and notes when it is not what the cluster gets.
func (s *Source) read(ctx context.Context, r client.Reader, reference *v1alpha1.ConfigReference, into client.Object) (missing string, err error) {
	kind, d := KindOf(reference.Resource), reference.DesiredConfig
	if d == nil {
		return fmt.Sprintf("which %s counts is not decided yet", kind), nil
	}
	key := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
	what := fmt.Sprintf("the %s %s", kind, strings.TrimPrefix(key.String(), "/"))
	if d.SpecHash == "" {
		return what + " does not exist", nil
	}
	object := &unstructured.Unstructured{} // as on the wire, for the hash
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if err := r.Get(ctx, key, object, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return what + " does not exist", nil
		}
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	hash, err := configs.Hash(object.Object)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	if hash != d.SpecHash {
		s.Outdated = what + " has changed, and the cluster's turn has not come"
	}
	return "", nil
}
