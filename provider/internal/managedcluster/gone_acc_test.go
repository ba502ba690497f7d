package managedcluster_test

import (
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// A cluster that is gone for good is given up by one attribute: what has the finalizer
// of its agent goes within seconds, and so does the cluster.
func TestAccManagedClusterThatIsGone(t *testing.T) {
	const works = `
resource "muster_cluster_acceptance" "test" { managed_cluster = muster_managed_cluster.test.name }
resource "muster_manifest_work" "test" {
  managed_cluster = muster_cluster_acceptance.test.managed_cluster
  name            = %q
  objects         = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x", namespace = "default" } }]
  timeouts { delete = %q }
}
`
	cluster := func(body string) string {
		return acctest.ClusterConfig("mc-gone", body+"\n  timeouts { delete = \"1m\" }")
	}
	// hold gives a work the finalizer that an agent would have set.
	hold := func(name string) func() {
		return func() {
			acctest.Someone(t).Patch(&workv1.ManifestWork{}, "mc-gone", name, `{"metadata":{"finalizers":["`+work.ManifestWorkFinalizer+`"]}}`)
		}
	}
	acctest.Run(t,
		resource.TestStep{Config: cluster("") + fmt.Sprintf(works, "one", "3s")},
		resource.TestStep{ // without the attribute the work waits for its agent, and says what to do
			PreConfig: hold("one"), Config: cluster(""), ExpectError: acctest.Saying("set gone = true in its muster_managed_cluster", "muster detach mc-gone --force"),
		},
		resource.TestStep{
			Config: cluster("gone = true") + fmt.Sprintf(works, "one", "30s"),
			Check: func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(object, "", "mc-gone")
				if object.Annotations[muster.GoneAnnotation] != "true" {
					return fmt.Errorf("the annotations are %v", object.Annotations)
				}
				return nil
			},
		},
		resource.TestStep{ // the work goes now, and the cluster in the end with another one
			Config: cluster("gone = true") + fmt.Sprintf(works, "two", "30s"),
			Check: func(*terraform.State) error {
				if acctest.Someone(t).Exists(&workv1.ManifestWork{}, "mc-gone", "one") {
					return fmt.Errorf("the work is still there")
				}
				hold("two")()
				return nil
			},
		},
	)
}
