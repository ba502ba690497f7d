package manager_test

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
)

var env testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env) }
