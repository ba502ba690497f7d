package addon_test

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

func request(t testing.TB) []byte {
	t.Helper()
	_, pem := testkit.CertificateRequest(t, "somebody")
	return pem
}
