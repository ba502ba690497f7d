package addons

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Manager acts as the service account of upstream's add-on manager. AddOnTemplates
// name roles and Secrets; what comes of that is limited to what this service account
// may do, and the API server decides it.
type Manager struct {
	// Plain has the rights that administrators have given to the service account.
	Plain client.Client
	// Usual has, in addition, those that upstream's add-on manager has from the start
	// and that can do no harm to the hub or to other clusters.
	Usual client.Client
}

// NewManager makes the clients from an administrator's config. They read from the
// server.
func NewManager(admin *rest.Config, o client.Options) (Manager, error) {
	plain, err := actAs(admin, o)
	if err != nil {
		return Manager{}, err
	}
	usual, err := actAs(admin, o, addon.ManagerUsualGroup)
	return Manager{Plain: plain, Usual: usual}, err
}

func actAs(admin *rest.Config, o client.Options, groups ...string) (client.Client, error) {
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: addon.ManagerUser,
		Groups:   append([]string{"system:serviceaccounts", "system:serviceaccounts:" + cluster.HubNamespace, addon.ManagerGroup}, groups...),
	}
	c, err := client.New(config, o)
	if err != nil {
		return nil, fmt.Errorf("act as the add-on manager: %w", err)
	}
	return c, nil
}

// NewCache makes a cache of the objects of some kinds that have a label, and adds it to
// a manager. It is apart from the manager's, which holds none that belong to add-ons.
func NewCache(m manager.Manager, label string, kinds ...client.Object) (cache.Cache, error) {
	labelled, err := labels.Parse(label)
	if err != nil {
		return nil, err
	}
	byObject := map[client.Object]cache.ByObject{}
	for _, kind := range kinds {
		byObject[kind] = cache.ByObject{Label: labelled}
	}
	c, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(), ByObject: byObject,
	})
	if err != nil {
		return nil, fmt.Errorf("cache what belongs to add-ons: %w", err)
	}
	return c, m.Add(c)
}
