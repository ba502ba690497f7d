package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// nameCluster finds the cluster's name: the one that was given, or the one that it
// is registered under. With several hubs to choose from, a cluster without one gets
// a random name, which is stored at once so that it stays. Otherwise the hub says
// later what it is called. It tries until the managed cluster answers.
func (o *Options) nameCluster(ctx context.Context, local client.Client) error {
	if o.ClusterName != "" {
		return nil
	}
	store := identity.Store{Client: local, Namespace: o.Namespace}
	var problem retry.Once
	name := ""
	err := retry.Until(ctx, o.Clock, retry.Start(30*time.Second), func(ctx context.Context) (err error) {
		name, err = storedName(ctx, store, len(o.BootstrapKubeconfigs) > 0)
		if err != nil && ctx.Err() == nil && problem.Changed(err.Error()) {
			o.Log.Warn("cannot find out what the cluster is called, trying again: see to the connection, or name it with --cluster-name", "err", err)
		}
		return err
	})
	if err != nil {
		return err
	}
	if o.ClusterName = name; name == "" {
		return nil
	}
	return checkName(name, o.Namespace)
}

func storedName(ctx context.Context, store identity.Store, random bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stored, err := store.Load(ctx)
	if err != nil || stored.Cluster != "" || !random {
		return stored.Cluster, err
	}
	stored.Cluster = string(uuid.NewUUID())
	return stored.Cluster, store.Save(ctx, identity.Identity{Names: stored.Names})
}

// checkName checks a name that was stored, which not only the agent can do.
func checkName(name, namespace string) error {
	if err := cluster.ReservedName(name); err != nil {
		return fmt.Errorf("the Secret %s/%s calls the cluster %q: %w with --cluster-name", namespace, cluster.HubKubeconfigSecret, name, err)
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("metadata.name format is not correct: the Secret %s/%s calls the cluster %q: %s: "+
			"give another name with --cluster-name, or delete the Secret to get one",
			namespace, cluster.HubKubeconfigSecret, name, strings.Join(problems, "; "))
	}
	return nil
}
