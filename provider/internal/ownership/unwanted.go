package ownership

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// A server-side apply leaves the fields that others have set and the configuration
// does not name. Some of these are the configuration's all the same: where leaving
// a field out means something, a value that somebody adds contradicts it.

// removeUnwanted removes the unwanted fields of an object that was just written. A
// list to which others have added becomes that of the configuration. Without Force
// that is a conflict with those who have set them.
func (w Write) removeUnwanted(ctx context.Context, client *kube.Client, written kube.Object) error {
	unwanted := w.unwanted(written)
	if len(unwanted) == 0 {
		return nil
	}
	if !w.Force {
		return w.conflict(written, unwanted)
	}
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": written.GetResourceVersion()}}
	for _, path := range unwanted {
		at := patch
		for _, name := range path[:len(path)-1] {
			below, ok := at[name].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[name] = below
			}
			at = below
		}
		wanted, err := valueAt(w.Object, path)
		if err != nil {
			return err
		}
		at[path[len(path)-1]] = wanted
	}
	return client.MergePatch(ctx, written, w.Manager, patch)
}

func (w Write) unwanted(object kube.Object) [][]string {
	if w.Unwanted == nil {
		return nil
	}
	return w.Unwanted(object)
}

// withUnwanted adds the unwanted fields to the differences of taking an object over.
func (w Write) withUnwanted(object kube.Object, differences []Difference) ([]Difference, error) {
	for _, path := range w.unwanted(object) {
		value, err := valueAt(object, path)
		if err != nil {
			return nil, err
		}
		differences = append(differences, Difference{Path: strings.Join(path, "."), There: value})
	}
	return differences, nil
}

// conflict is the error of fields that others have set, as the server would tell it.
func (w Write) conflict(object kube.Object, unwanted [][]string) error {
	conflicts := w.owners(object, unwanted)
	causes := make([]metav1.StatusCause, 0, len(conflicts))
	for _, c := range conflicts {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: c.Field, Message: "conflict with " + c.Owner})
	}
	return apierrors.NewApplyConflict(causes, fmt.Sprintf("%d fields are set that the configuration leaves out", len(causes)))
}

// owners tells who has set the unwanted fields.
func (w Write) owners(object kube.Object, unwanted [][]string) []kube.Conflict {
	conflicts := make([]kube.Conflict, 0, len(unwanted))
	for _, path := range unwanted {
		owner := "nobody who is known"
		for _, entry := range object.GetManagedFields() {
			if entry.Subresource == "" && entry.Manager != w.Manager && Of(object, entry.Manager).Has(path...) {
				owner = fmt.Sprintf("%q using %s", entry.Manager, entry.APIVersion)
			}
		}
		conflicts = append(conflicts, kube.Conflict{Field: "." + strings.Join(path, "."), Owner: owner})
	}
	return conflicts
}

// valueAt is the value of a field in JSON's terms; nil when there is none.
func valueAt(object kube.Object, path []string) (any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("read the fields of %s: %w", object.GetName(), err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, fmt.Errorf("read the fields of %s: %w", object.GetName(), err)
	}
	for _, name := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil, nil //nolint:nilnil // no field, no value
		}
		value = fields[name]
	}
	return value, nil
}
