package clusterimport

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// An agent that does not start is named by its pod, image and reason, and nothing else of
// what the cluster says of its pods.
func TestWhyAnAgentDoesNotRun(t *testing.T) {
	banner := "SSH-2.0-OpenSSH"
	waiting := func(name, reason string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1, 0))},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: klusterlet.Name, Image: banner, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: banner}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: banner}},
			}}},
		}
	}
	for what, x := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"no pod":             {nil, ""},
		"an image":           {[]corev1.Pod{waiting("agent-1", "ImagePullBackOff")}, "pod agent-1, image example.com/agent:1: ImagePullBackOff (it ended with code 2)"},
		"a text as reason":   {[]corev1.Pod{waiting("agent-1", banner)}, ""},
		"a long reason":      {[]corev1.Pod{waiting("agent-1", strings.Repeat("A", 100))}, ""},
		"a text as its name": {[]corev1.Pod{waiting(banner+"\n", "ImagePullBackOff")}, ""},
	} {
		_, to := secured(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/namespaces/agents/pods" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: x.pods})
		})
		managed, err := connect(to, "", true, 5*time.Second)
		testkit.Must(t, err)
		got, err := managed.whyNotRunning(t.Context(), klusterlet.Options{AgentOptions: v1alpha1.AgentOptions{Namespace: "agents", Image: "example.com/agent:1"}})
		if err != nil || got != x.want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, x.want)
		}
		managed.close()
	}
}
