package registration

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud/crudtest"
)

func TestModelsFitTheirSchemas(t *testing.T) {
	crudtest.Fits(t, NewAcceptance(), &clusterAcceptanceModel{})
	crudtest.Fits(t, NewRegistration(), &clusterRegistrationModel{})
	crudtest.Fits(t, NewToken(), &bootstrapTokenModel{})
}
