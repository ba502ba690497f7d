package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
)

// makeToken makes a bootstrap token on the hub, by its Secret, and returns the kubeconfig
// with which an agent registers.
func makeToken(ctx context.Context, c client.Client, secret *corev1.Secret) ([]byte, error) {
	info := &corev1.ConfigMap{}
	at := client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.ClusterInfo}
	if err := c.Get(ctx, at, info); err != nil {
		return nil, fmt.Errorf("read where agents reach the hub from the ConfigMap %s: %w", at, err)
	}
	server, ca, err := bootstraptoken.Server(info.Data)
	if err != nil {
		return nil, err
	}
	config, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Server: server, CAData: ca, Token: bootstraptoken.Parse(secret).String(),
	}.YAML()
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	if err := c.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("make a bootstrap token in the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return config, nil
}
