package manifest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
)

// removeJQPath removes what a jq path leads to. Other than a JSON path, it can
// remove items of lists.
func removeJQPath(object *unstructured.Unstructured, path string) error {
	p, err := fieldpath.ParseJQ(path)
	if err != nil {
		return fmt.Errorf("the jq path expression %q cannot be read: %w", path, err)
	}
	if err := p.Delete(object.Object); err != nil {
		return fmt.Errorf("the jq path expression %q: %w", path, err)
	}
	return nil
}
