// Package works decides which ManifestWorks an add-on has: from its manifests and the
// works that there are follows which works to create, to change and to delete. It is
// pure: its results depend on nothing but its arguments.
//
// An add-on has works in the namespace of its own cluster, and a hosted one also in
// that of its hosting cluster. Manifests that are too large for one work are spread
// over several. A manifest stays in the work that holds it: when it goes to another
// one, the object in the cluster may be deleted in between.
//
// Names, labels and annotations are those of Open Cluster Management. What others add
// to the metadata of works stays.
package works

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Place is where works of an add-on are.
type Place struct {
	// AddOn is the add-on in its cluster.
	AddOn *v1alpha1.ManagedClusterAddOn
	// Host is the hosting cluster of the works; empty for works in the add-on's own
	// cluster.
	Host string
}

// Namespace is the namespace of the works.
func (p Place) Namespace() string {
	if p.Host != "" {
		return p.Host
	}
	return p.AddOn.Namespace
}

// HookName is the name of the work that runs before the add-on is deleted.
func (p Place) HookName() string {
	if p.Host != "" {
		return addon.HostingPreDeleteWorkName(p.AddOn.Name, p.AddOn.Namespace)
	}
	return addon.PreDeleteWorkName(p.AddOn.Name)
}

// prefix begins the names of the other works.
func (p Place) prefix() string {
	if p.Host != "" {
		return addon.HostingDeployWorkName(p.AddOn.Name, p.AddOn.Namespace) + "-"
	}
	return addon.DeployWorkName(p.AddOn.Name) + "-"
}

// index is the number at the end of a work's name; ok is false for works with other
// names.
func (p Place) index(name string) (n int, ok bool) {
	text, ok := strings.CutPrefix(name, p.prefix())
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == text
}

// Owns reports whether a work is one of the add-on's in this place. The labels say
// works of the place's own add-on from those that are hosted there for other
// clusters.
func (p Place) Owns(w *workv1.ManifestWork) bool {
	hostedFor := ""
	if p.Host != "" {
		hostedFor = p.AddOn.Namespace
	}
	if w.Namespace != p.Namespace() || w.Labels[cluster.AddOnNameLabel] != p.AddOn.Name || w.Labels[addon.AddOnNamespaceLabel] != hostedFor {
		return false
	}
	_, deploys := p.index(w.Name)
	return deploys || w.Name == p.HookName()
}

// Deployed is how many works hold what the add-on has in a place as long as it is
// there.
func Deployed(p Place, have []*workv1.ManifestWork) (n int) {
	for _, w := range have {
		if _, ok := p.index(w.Name); ok && p.Owns(w) {
			n++
		}
	}
	return n
}

// metadata is what the add-on says of one of its works.
func (p Place) metadata(name string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: p.Namespace(), Name: name, Labels: map[string]string{cluster.AddOnNameLabel: p.AddOn.Name}}
	if p.Host != "" {
		m.Labels[addon.AddOnNamespaceLabel] = p.AddOn.Namespace
	} else {
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p.AddOn, v1beta1.GroupVersion.WithKind("ManagedClusterAddOn"))}
	}
	if hashes, ok := configs.SpecHashAnnotation(p.AddOn.Status.ConfigReferences); ok {
		m.Annotations = map[string]string{work.SpecHashAnnotation: hashes}
	}
	return m
}

// CheckName says why an add-on can have no works.
func CheckName(a *v1alpha1.ManagedClusterAddOn) error {
	if bad := validation.IsValidLabelValue(a.Name); len(bad) > 0 {
		return fmt.Errorf("the name of the add-on, %q (%d characters), cannot be the value of the label %s, which its works need: %s; give the add-on a shorter name",
			a.Name, len(a.Name), cluster.AddOnNameLabel, strings.Join(bad, "; "))
	}
	return nil
}
