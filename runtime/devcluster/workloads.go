package devcluster

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
)

const (
	workloadWorkers = 2

	// burstReplicas is how many pods a replica set makes or deletes at a time.
	burstReplicas = 500
)

// workloadControllers are Kubernetes' own controllers that turn workloads into
// pods. Their informers are added to f, which the caller starts.
func workloadControllers(ctx context.Context, client kubernetes.Interface, f informers.SharedInformerFactory) ([]controlplane.Controller, error) {
	pods, replicaSets := f.Core().V1().Pods(), f.Apps().V1().ReplicaSets()
	deployments, err := deployment.NewDeploymentController(ctx, f.Apps().V1().Deployments(), replicaSets, pods, client)
	if err != nil {
		return nil, err
	}
	// Jobs do not take part in gang scheduling here, so no informers for it.
	jobs, err := job.NewController(ctx, client, pods, f.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, err
	}
	sets := replicaset.NewReplicaSetController(ctx, replicaSets, pods, client, burstReplicas)
	return []controlplane.Controller{
		func(ctx context.Context) { deployments.Run(ctx, workloadWorkers) },
		func(ctx context.Context) { sets.Run(ctx, workloadWorkers) },
		func(ctx context.Context) { jobs.Run(ctx, workloadWorkers) },
	}, nil
}
