package addon

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud/crudtest"
)

func TestModelsOfAddOnsFitTheirSchemas(t *testing.T) {
	crudtest.Fits(t, AddOn().NewResource(), &addOnModel{})
}
