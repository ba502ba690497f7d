package manifestwork

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud/crudtest"
)

func TestModelsFitTheirSchemas(t *testing.T) {
	crudtest.Fits(t, Work().NewResource(), &manifestWorkModel{})
}
