package life

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
)

// env is the managed cluster.
var env testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env, testenv.ManagedCluster()) }
