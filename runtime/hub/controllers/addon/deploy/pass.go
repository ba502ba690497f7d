package deploy

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
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
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: name}, mc, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("read the cluster %s: %w", name, err)
	}
	return mc, nil
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
	if out.result, err = t.parsed.Render(in); err == nil {
		out.managed, out.hosting, err = works.Sort(out.result.Objects, p.hosted)
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
