package controlplane

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubeoptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	schedulinghelpers "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
)

// serviceRange is where a full control plane takes cluster IPs from. Nothing
// routes to them.
const serviceRange = "10.96.0.0/16"

func buildFull(ctx context.Context, o Options, s *options.Options) (*aggregatorapiserver.APIAggregator, error) {
	run := kubeoptions.NewServerRunOptions()
	s.SystemNamespaces = run.SystemNamespaces // with kube-node-lease
	run.Options = s
	run.ServiceClusterIPRanges = serviceRange
	run.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	run.AllowPrivileged = true
	completed, err := run.Complete(ctx)
	if err != nil {
		return nil, fmt.Errorf("complete the API server's options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("the API server's options: %w", utilerrors.NewAggregate(errs))
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, fmt.Errorf("configure the API server: %w", err)
	}
	generic := config.KubeAPIs.ControlPlane.Generic
	if err := adjust(generic, o); err != nil {
		return nil, err
	}
	convertInProcess(config.ApiExtensions, o.Conversions)
	// The front server was configured from a copy.
	config.Aggregator.GenericConfig.EffectiveVersion = generic.EffectiveVersion
	config.Aggregator.GenericConfig.ReadyzChecks = generic.ReadyzChecks
	config.Aggregator.GenericConfig.ShutdownWatchTerminationGracePeriod = generic.ShutdownWatchTerminationGracePeriod
	// Two of Kubernetes' own start hooks wait a second before they do their
	// work; ours do the same work at once.
	generic.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName, schedulingrest.PostStartHookName)
	if err := generic.AddPostStartHook("muster-rbac-defaults", reconcileDefaultPolicy); err != nil {
		return nil, err
	}
	if err := generic.AddPostStartHook("muster-priority-classes", createPriorityClasses); err != nil {
		return nil, err
	}
	done, err := config.Complete()
	if err != nil {
		return nil, fmt.Errorf("complete the API server's configuration: %w", err)
	}
	return app.CreateServerChain(done)
}

// createPriorityClasses makes the system's priority classes, which pods of the
// system name.
func createPriorityClasses(hook genericapiserver.PostStartHookContext) error {
	client, err := kubernetes.NewForConfig(hook.LoopbackClientConfig)
	if err != nil {
		return err
	}
	var jobs []func() error
	for _, class := range schedulinghelpers.SystemPriorityClasses() {
		jobs = append(jobs, func() error {
			_, err := client.SchedulingV1().PriorityClasses().Create(hook, class, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	return inParallel(len(jobs), jobs)
}
