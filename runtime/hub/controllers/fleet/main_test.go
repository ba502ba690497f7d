package fleet_test

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

var env testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Gated(kinds.HubWithClusterProfile),
		testenv.Gated(kinds.HubWithWorkPreview), testenv.Gated(kinds.HubWithWorkOverride))
}
