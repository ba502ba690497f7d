package addon_test

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/install"
)

var env testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.With(func(ctx context.Context, s *controlplane.Server) (func(), error) {
		c, err := client.New(s.RESTConfig("muster-test"), client.Options{Mapper: restmapper.Static()})
		for _, o := range install.AddOnRoles() {
			err = errors.Join(err, c.Create(ctx, o))
		}
		return func() {}, err
	}))
}
