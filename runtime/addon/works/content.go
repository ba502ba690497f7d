package works

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
)

// Content are the manifests for one place.
type Content struct {
	// Deploy are applied as long as the add-on is there.
	Deploy []*unstructured.Unstructured
	// Hooks run when the add-on is deleted.
	Hooks []*unstructured.Unstructured
}

// Sort says where and when the manifests of an add-on are applied. Only a hosted
// add-on has any in its hosting cluster.
func Sort(objects []*unstructured.Unstructured, hosted bool) (managed, hosting Content, err error) {
	for _, o := range Once(objects) {
		into := &managed
		if hosted {
			switch where, said := mark(o, addon.LocationAnnotation); {
			case !said || where == addon.LocationManaged:
			case where == addon.LocationHosting:
				into = &hosting
			case where == addon.LocationNone:
				continue
			default:
				return managed, hosting, fmt.Errorf("the manifest %s: %s is %q: use %s, %s or %s",
					describe(o), addon.LocationAnnotation, where, addon.LocationManaged, addon.LocationHosting, addon.LocationNone)
			}
		}
		if IsHook(o) {
			into.Hooks = append(into.Hooks, o)
		} else {
			into.Deploy = append(into.Deploy, o)
		}
	}
	return managed, hosting, nil
}

// IsHook reports whether a manifest is to run before the add-on is deleted.
func IsHook(o *unstructured.Unstructured) bool {
	_, marked := mark(o, addon.PreDeleteAnnotation)
	return marked && (isJob(o.GroupVersionKind().GroupKind()) || isPod(o.GroupVersionKind().GroupKind()))
}

func isJob(kind schema.GroupKind) bool { return kind.Group == "batch" && kind.Kind == "Job" }

func isPod(kind schema.GroupKind) bool { return kind.Group == "" && kind.Kind == "Pod" }

// mark is the annotation of a key, or in its absence the label.
func mark(o *unstructured.Unstructured, key string) (value string, found bool) {
	if value, found = o.GetAnnotations()[key]; found {
		return value, true
	}
	value, found = o.GetLabels()[key]
	return value, found
}

// key identifies an object, whatever version of its kind a manifest uses.
type key struct{ group, kind, namespace, name string }

func keyOf(o *unstructured.Unstructured) key {
	kind := o.GroupVersionKind()
	return key{kind.Group, kind.Kind, o.GetNamespace(), o.GetName()}
}

// Once leaves of several manifests for one object the last one, in the place of the
// first.
func Once(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	at := map[key]int{}
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		if i, twice := at[keyOf(o)]; twice {
			out[i] = o
			continue
		}
		at[keyOf(o)] = len(out)
		out = append(out, o)
	}
	return out
}

// describe names a manifest in a message.
func describe(o *unstructured.Unstructured) string {
	return strings.TrimSpace(o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
}
