package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// pass is one look at a ManagedClusterAddOn, and what it has found out. Nobody may
// change what is in it but the add-on.
type pass struct {
	addOn      *v1alpha1.ManagedClusterAddOn
	definition *v1alpha1.ClusterManagementAddOn
	// cluster is the add-on's own, nil if there is none.
	cluster *clusterv1.ManagedCluster
	// asked is the hosting cluster that the add-on asks for, hosted whether it asks at
	// all, and host the cluster if it can host.
	asked  string
	hosted bool
	host   *clusterv1.ManagedCluster
	// own are the add-on's works in its own cluster, and away those in hosting
	// clusters: one that it had before, too.
	own, away []*workv1.ManifestWork
}

// managed is the place of the works in the add-on's own cluster.
func (p *pass) managed() works.Place { return works.Place{AddOn: p.addOn} }

// hosting is the place of the works in the hosting cluster.
func (p *pass) hosting() works.Place { return works.Place{AddOn: p.addOn, Host: p.asked} }

// gather reads what a pass depends on. It is nil for an add-on of another manager.
func (c *Controller) gather(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) (*pass, error) {
	definition, err := addons.Definition(ctx, c.client, a.Name)
	if err != nil || !ours(definition, a) {
		return nil, err
	}
	p := &pass{addOn: a, definition: definition}
	p.asked, p.hosted = a.Annotations[addon.HostingClusterAnnotation]
	if p.cluster, err = c.cluster(ctx, a.Namespace); err != nil {
		return nil, err
	}
	if p.asked != "" {
		if p.host, err = c.cluster(ctx, p.asked); err != nil {
			return nil, err
		}
		if p.host != nil && !p.host.DeletionTimestamp.IsZero() {
			p.host = nil
		}
	}
	if hasWorks := works.CheckName(a) == nil; hasWorks {
		if p.own, err = c.works.own(ctx, a); err == nil {
			p.away, err = c.works.away(ctx, a)
		}
	}
	return p, err
}

// ours reports whether the hub manages an add-on in a cluster. When its definition is
// gone, the add-on is about to go, too, and what is left says what it was made from.
func ours(definition *v1alpha1.ClusterManagementAddOn, a *v1alpha1.ManagedClusterAddOn) bool {
	if definition != nil {
		return configs.FromTemplate(definition)
	}
	return addons.Template(a) != "" && !a.DeletionTimestamp.IsZero()
}

// cluster reads a ManagedCluster; it is nil when there is none.
func (c *Controller) cluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	return apply.Read(ctx, c.client, types.NamespacedName{Name: name},
		&clusterv1.ManagedCluster{}, client.UnsafeDisableDeepCopy)
}

// deploys reports whether the works of an add-on may be changed now.
func (p *pass) deploys() bool {
	return p.definition != nil && !configs.SelfManaged(p.definition) && p.cluster != nil && p.cluster.DeletionTimestamp.IsZero() && registered(p.addOn)
}

// registered reports whether the hub has said something of an add-on's registration.
// As upstream, what it has said does not matter.
func registered(a *v1alpha1.ManagedClusterAddOn) bool {
	return meta.FindStatusCondition(a.Status.Conditions, registration.ConditionRegistrationApplied) != nil
}

func configured(a *v1alpha1.ManagedClusterAddOn) bool {
	return meta.IsStatusConditionTrue(a.Status.Conditions, addon.ConditionConfigured)
}

// errWaiting says that an add-on does not get anything new yet.
var errWaiting = errors.New("the add-on is not configured, or its turn in a rollout has not come")

// content is what an add-on is made of in a cluster.
type content struct {
	managed, hosting works.Content
	result           template.Result
	// spec has what else the template says of works.
	spec workv1.ManifestWorkSpec
}

// render makes the manifests of an add-on. The error is errWaiting as long as the
// cluster is not to have what the template and the configuration say now.
func (c *Controller) render(ctx context.Context, p *pass) (*content, error) {
	if !configured(p.addOn) {
		return nil, errWaiting
	}
	references, err := template.ReferencesOf(p.addOn)
	if err != nil {
		return nil, &problemError{err}
	}
	t, err := c.sources.template(ctx, references.Template)
	if err != nil {
		return nil, err
	}
	in := template.Input{Cluster: p.cluster, AddOn: p.addOn}
	if references.Config != nil {
		if in.Config, err = c.sources.config(ctx, *references.Config); err != nil {
			return nil, err
		}
	}
	if t.problem != nil {
		return nil, &problemError{t.problem}
	}
	out := &content{spec: t.spec}
	if out.result, err = t.parsed.RenderFor(ctx, t.own, in); err == nil {
		out.managed, out.hosting, err = works.Sort(out.result.Objects, p.hosted)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &problemError{err}
	}
	return out, nil
}

// problemError is a reason for which there are no manifests that only a user can
// change.
type problemError struct{ error }

func (e *problemError) Unwrap() error { return e.error }

// isFailure reports whether an error of render is none of its answers, but a failure to
// find them.
func isFailure(err error) bool {
	var problem *problemError
	return err != nil && !errors.Is(err, errWaiting) && !errors.As(err, &problem)
}

// input is what a content wants in a place.
func (c *Controller) input(place works.Place, what works.Content, all *content) works.Input {
	in := works.Input{Place: place, Content: what, ManifestLimit: c.limit}
	if all != nil {
		in.ManifestConfigs, in.DeleteOption, in.Executor = all.result.ManifestConfigs, all.spec.DeleteOption, all.spec.Executor
	}
	return in
}

// conditionOf is a condition of an add-on as it is, nil if it has none.
func (p *pass) conditionOf(which string) *metav1.Condition {
	return meta.FindStatusCondition(p.addOn.Status.Conditions, which)
}

// sources are templates and deployment configurations, each hashed and parsed once
// for all clusters. They are safe for concurrent use.
type sources struct {
	reader client.Reader
	Options

	mu    sync.Mutex
	known map[sourceKey]*configObject
}

type sourceKey struct {
	kind string
	types.NamespacedName
}

// configObject is one version of a configuration object. Nobody may change it.
type configObject struct {
	uid     types.UID
	version string
	hash    string

	// Of a template: parsed, or the problem that it has in every cluster, and what it
	// says of works beside their manifests.
	parsed  *template.Template
	problem error
	spec    workv1.ManifestWorkSpec
	// own is the template with its override; nil without one.
	own *override.Template

	// config is of a deployment configuration.
	config *v1alpha1.AddOnDeploymentConfig
}

func newSources(r client.Reader, o Options) *sources {
	return &sources{reader: r, Options: o, known: map[sourceKey]*configObject{}}
}

// template is an AddOnTemplate with the hash that it has to have.
func (s *sources) template(ctx context.Context, want v1alpha1.ConfigSpecHash) (*configObject, error) {
	return s.get(ctx, addon.TemplateResource, want)
}

// config is an AddOnDeploymentConfig with the hash that it has to have.
func (s *sources) config(ctx context.Context, want v1alpha1.ConfigSpecHash) (*v1alpha1.AddOnDeploymentConfig, error) {
	found, err := s.get(ctx, addon.DeploymentConfigResource, want)
	if err != nil {
		return nil, err
	}
	return found.config, nil
}

// get is a configuration object. The error is errWaiting when it is not what the
// cluster is to have.
func (s *sources) get(ctx context.Context, resource string, want v1alpha1.ConfigSpecHash) (*configObject, error) {
	key := sourceKey{addons.KindOf(resource), types.NamespacedName{Namespace: want.Namespace, Name: want.Name}}
	o := &unstructured.Unstructured{} // as on the wire, for the hash
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(key.kind))
	if err := s.reader.Get(ctx, key.NamespacedName, o, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			s.forget(key)
			return nil, &problemError{fmt.Errorf("there is no %s %q: create it again, or name another one", key.kind, strings.TrimPrefix(key.String(), "/"))}
		}
		return nil, fmt.Errorf("read the %s %s: %w", key.kind, key.NamespacedName, err)
	}
	found, err := s.read(key, o)
	if err != nil {
		return nil, fmt.Errorf("read the %s %s: %w", key.kind, key.NamespacedName, err)
	}
	if found.hash != want.SpecHash {
		return nil, errWaiting
	}
	return found, nil
}

func (s *sources) forget(key sourceKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

// read is what is known of an object, or is found out now.
func (s *sources) read(key sourceKey, o *unstructured.Unstructured) (*configObject, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.known[key]; have != nil && have.uid == o.GetUID() && have.version == o.GetResourceVersion() {
		return have, nil
	}
	out := &configObject{uid: o.GetUID(), version: o.GetResourceVersion()}
	var err error
	if out.hash, err = configs.Hash(o.Object); err != nil {
		return nil, err
	}
	if key.kind == addons.KindOf(addon.TemplateResource) {
		t := &v1alpha1.AddOnTemplate{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, t); err != nil {
			return nil, err
		}
		if out.parsed, out.problem = template.Parse(t); out.problem == nil {
			out.own, out.problem = s.override(t)
		}
		out.spec = t.Spec.AgentSpec
		out.spec.Workload.Manifests = nil
	} else {
		out.config = &v1alpha1.AddOnDeploymentConfig{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out.config); err != nil {
			return nil, err
		}
	}
	s.known[key] = out
	return out, nil
}

// override is a template with its override; nil without one.
func (s *sources) override(t *v1alpha1.AddOnTemplate) (*override.Template, error) {
	own, err := override.OfAddOn(t, s.ManifestLimit)
	if err == nil && own != nil && !s.Overrides {
		err = fmt.Errorf("it has the annotation %s, and the hub's feature gate WorkOverride is off: turn it on, or "+
			"remove the annotation", muster.OverrideAnnotation)
	}
	if err != nil {
		return nil, fmt.Errorf("AddOnTemplate %q: %w", t.Name, err)
	}
	return own, nil
}

// overridden reports whether a template has an override, as far as it has been read.
func (s *sources) overridden(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[sourceKey{addons.KindOf(addon.TemplateResource), types.NamespacedName{Name: name}}]
	return known != nil && known.own != nil
}
