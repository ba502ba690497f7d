package examples_test

import (
	"os"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

func TestMain(m *testing.M) { os.Exit(acctest.Main(m)) }
