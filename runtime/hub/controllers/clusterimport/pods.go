package clusterimport

import (
	"cmp"
	"context"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
)

// maxPods is how many pods of an agent are looked at.
const maxPods = 50

// reasonWord is the form of Kubernetes' reasons.
var reasonWord = regexp.MustCompile(`^[A-Z][A-Za-z]{1,63}$`)

// whyNotRunning says which pod of the agent does not run, with which image, and
// Kubernetes' word for it; empty when that is not known. The pods are what the cluster
// says they are: the image is the one that the hub has asked for, and no text of a pod
// is repeated.
func (c *connection) whyNotRunning(ctx context.Context, o klusterlet.Options) (string, error) {
	pods := &corev1.PodList{}
	own := client.MatchingLabels{klusterlet.AppLabel: klusterlet.Name}
	err := c.List(ctx, pods, client.InNamespace(o.Namespace), own, client.Limit(maxPods))
	if err != nil {
		return "", err
	}
	return describeProblem(rolloutstatus.ProblemOf(pods.Items), cmp.Or(o.Image, klusterlet.DefaultImage())), nil
}

func describeProblem(p *rolloutstatus.Problem, image string) string {
	if p == nil || !reasonWord.MatchString(p.Reason) || len(validation.IsDNS1123Subdomain(p.Pod)) > 0 {
		return ""
	}
	text := fmt.Sprintf("pod %s, image %s: %s", p.Pod, image, p.Reason)
	if p.Ended != nil {
		text += fmt.Sprintf(" (it ended with code %d)", p.Ended.ExitCode)
	}
	return text
}
