package report

import "testing"

// Where a rollout stands is found without rules for the kinds that are known.
func TestProgress(t *testing.T) {
	deployment := func(status string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":2},"spec":{"replicas":3},"status":` + status + `}`
	}
	statefulSet := func(spec, status string) string {
		return `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"generation":1},"spec":` + spec + `,"status":` + status + `}`
	}
	daemonSet := func(status string) string {
		return `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"generation":1},"spec":{},"status":` + status + `}`
	}
	pod := func(status string) string { return `{"apiVersion":"v1","kind":"Pod","status":` + status + `}` }
	for name, x := range map[string]struct{ object, want string }{
		"deployment, unseen":          {deployment(`{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"availableReplicas":3}`), "moving: its controller has not seen the spec yet"},
		"deployment, updating":        {deployment(`{"observedGeneration":2,"replicas":3,"updatedReplicas":1,"availableReplicas":3}`), "moving: 1 of 3 replicas are updated"},
		"deployment, old ones left":   {deployment(`{"observedGeneration":2,"replicas":4,"updatedReplicas":3,"availableReplicas":3}`), "moving: 1 old replicas are still there"},
		"deployment, not available":   {deployment(`{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":2}`), "moving: 2 of 3 replicas are available"},
		"deployment, there":           {deployment(`{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":3}`), "settled"},
		"deployment, too slow":        {deployment(`{"observedGeneration":2,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"has timed out"}]}`), "stuck: has timed out"},
		"deployment, no pods":         {deployment(`{"observedGeneration":2,"conditions":[{"type":"ReplicaFailure","status":"True","message":"exceeded quota"}]}`), "stuck: exceeded quota"},
		"deployment, at zero":         {`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":1},"spec":{"replicas":0},"status":{"observedGeneration":1}}`, "settled"},
		"stateful set, updating":      {statefulSet(`{"replicas":3}`, `{"observedGeneration":1,"updatedReplicas":1,"readyReplicas":3}`), "moving: 1 of 3 replicas are updated"},
		"stateful set, partitioned":   {statefulSet(`{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":2}}}`, `{"observedGeneration":1,"updatedReplicas":1,"readyReplicas":3}`), "settled"},
		"stateful set, on delete":     {statefulSet(`{"replicas":3,"updateStrategy":{"type":"OnDelete"}}`, `{"observedGeneration":1,"updatedReplicas":0,"readyReplicas":3}`), "settled"},
		"stateful set, not ready":     {statefulSet(`{"replicas":3}`, `{"observedGeneration":1,"updatedReplicas":3,"readyReplicas":2}`), "moving: 2 of 3 replicas are ready"},
		"daemon set, no node":         {daemonSet(`{"observedGeneration":1}`), "settled"},
		"daemon set, updating":        {daemonSet(`{"observedGeneration":1,"desiredNumberScheduled":2,"updatedNumberScheduled":1,"numberAvailable":2}`), "moving: 1 of 2 pods are updated"},
		"daemon set, not available":   {daemonSet(`{"observedGeneration":1,"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":1}`), "moving: 1 of 2 pods are available"},
		"job, running":                {`{"apiVersion":"batch/v1","kind":"Job","status":{"succeeded":1}}`, "moving: it is not finished: 1 pods have succeeded"},
		"job, done":                   {`{"apiVersion":"batch/v1","kind":"Job","status":{"conditions":[{"type":"Complete","status":"True"}]}}`, "settled"},
		"job, failed":                 {`{"apiVersion":"batch/v1","kind":"Job","status":{"conditions":[{"type":"Failed","status":"True","message":"too many retries"}]}}`, "stuck: too many retries"},
		"pod, new":                    {pod(`{}`), "moving: nobody has taken it yet"},
		"pod, pending":                {pod(`{"phase":"Pending"}`), "moving: it is Pending"},
		"pod, not ready":              {pod(`{"phase":"Running"}`), "moving: it is not ready"},
		"pod, ready":                  {pod(`{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`), "settled"},
		"pod, done":                   {pod(`{"phase":"Succeeded"}`), "settled"},
		"pod, failed":                 {pod(`{"phase":"Failed","message":"evicted"}`), "stuck: it has failed: evicted"},
		"replica set, not available":  {`{"apiVersion":"apps/v1","kind":"ReplicaSet","spec":{"replicas":2},"status":{"availableReplicas":1}}`, "moving: 1 of 2 replicas are available"},
		"a kind without such a thing": {`{"apiVersion":"v1","kind":"ConfigMap"}`, "settled"},
	} {
		t.Run(name, func(t *testing.T) {
			p := progressOf(parse(t, x.object))
			got := "settled"
			switch {
			case p.Degraded && p.Moving:
				got = "stuck: " + p.Why
			case p.Moving:
				got = "moving: " + p.Why
			}
			if got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}
