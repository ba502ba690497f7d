package admission

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

const (
	// maxQuantityLength is the greatest length of a quantity, in characters.
	// Those of Kubernetes have fewer than 25.
	maxQuantityLength = 64
	// maxExponentLength is the greatest number of digits in a quantity's
	// exponent. 10 to the power of 99 is larger than any real amount.
	maxExponentLength = 2
)

// readable refuses objects that the schema of their kind allows but programs
// cannot read: a time that Go's parser does not know, a number that is too
// large for its field, a quantity that takes minutes to compute.
//
// A client reads all objects of a kind at once. One object that it cannot read
// makes the whole list fail, so an agent could stop the hub, or a tenant could
// stop the agents, with a single status.
type readable struct {
	writes
	scheme *runtime.Scheme
}

// Admit changes nothing. It checks the quantities before any other plugin reads
// the object and is stopped by one that has to be refused.
func (p readable) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	object, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	if err := checkAllQuantities(a.GetKind().GroupKind(), object.Object); err != nil {
		return unreadable(a, err)
	}
	return nil
}

// Validate checks the part that the request can change: the status in a request
// for the status, and everything else in other requests.
func (p readable) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	object, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok || !p.scheme.Recognizes(a.GetKind()) {
		return nil
	}
	written := map[string]any{}
	for field, value := range object.Object {
		if (field == "status") == (a.GetSubresource() == "status") && field != "apiVersion" && field != "kind" && field != "metadata" {
			written[field] = value
		}
	}
	if err := p.read(a.GetKind(), written); err != nil {
		return unreadable(a, err)
	}
	return nil
}

func unreadable(a admission.Attributes, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the %s %q could not be read by any client: %v", a.GetKind().Kind, a.GetName(), err))
}

// read fails when the content cannot be read as the kind's Go type.
func (p readable) read(kind schema.GroupVersionKind, content map[string]any) error {
	if err := checkAllQuantities(kind.GroupKind(), content); err != nil {
		return err
	}
	into, err := p.scheme.New(kind)
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}

// quantities are the places where served kinds have quantities: paths to maps
// of quantities. A * in a path is each item of a list.
var quantities = map[schema.GroupKind][][]string{
	{Group: cluster.GroupName, Kind: "ManagedCluster"}: {{"status", "capacity"}, {"status", "allocatable"}},
	{Group: addon.GroupName, Kind: "AddOnDeploymentConfig"}: {
		{"spec", "resourceRequirements", "*", "resources", "limits"}, {"spec", "resourceRequirements", "*", "resources", "requests"},
	},
	{Group: muster.GroupName, Kind: "ClusterImport"}: {
		{"spec", "agent", "resources", "limits"}, {"spec", "agent", "resources", "requests"},
	},
	{Group: muster.GroupName, Kind: "LogicalCloud"}: {{"spec", "quotas", "*", "hard"}},
}

func checkAllQuantities(kind schema.GroupKind, content map[string]any) error {
	for _, path := range quantities[kind] {
		if err := checkQuantities(content, path); err != nil {
			return err
		}
	}
	return nil
}

// checkQuantities refuses quantities that are expensive to compute, without
// calling the parser, which would be slow itself.
func checkQuantities(value any, path []string) error {
	switch v := value.(type) {
	case map[string]any:
		if len(path) > 0 {
			return checkQuantities(v[path[0]], path[1:])
		}
		for name, q := range v {
			if s, ok := q.(string); ok && !cheapQuantity(s) {
				return fmt.Errorf("the quantity of %.64q is %.64q: give at most %d characters, and an exponent of at most %d digits", name, s, maxQuantityLength, maxExponentLength)
			}
		}
	case []any:
		for _, item := range v {
			if len(path) == 0 || path[0] != "*" {
				return nil
			}
			if err := checkQuantities(item, path[1:]); err != nil {
				return err
			}
		}
	}
	return nil
}

func cheapQuantity(s string) bool {
	if len(s) > maxQuantityLength {
		return false
	}
	at := strings.IndexAny(s, "eE")
	return at < 0 || len(strings.TrimLeft(s[at+1:], "+-")) <= maxExponentLength
}
