package logicalcloud

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud/crudtest"
)

func TestModelsFitTheirSchemas(t *testing.T) {
	crudtest.Fits(t, New(), &cloudModel{})
	crudtest.Fits(t, NewRole(), &roleModel{})
	crudtest.Fits(t, NewWait(), &waitResourceModel{})
}
