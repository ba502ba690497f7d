package addon

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud/crudtest"
)

func TestModelsFitTheirSchemas(t *testing.T) {
	crudtest.Fits(t, NewClusterAddOn(), &clusterAddOnModel{})
	crudtest.Fits(t, NewTemplate(), &templateModel{})
	crudtest.Fits(t, NewDeploymentConfig(), &deploymentConfigModel{})
}
