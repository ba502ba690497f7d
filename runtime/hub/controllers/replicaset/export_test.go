package replicaset

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReadWorksFrom has the controller find works elsewhere than on the server.
func (c *Controller) ReadWorksFrom(r client.Reader) { c.works = liveWorks(r) }
