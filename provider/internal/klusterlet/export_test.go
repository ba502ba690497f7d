package klusterlet

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// NewWith is New with as much patience with a pod that is stuck, and with an agent that
// has no answer of its hub.
func NewWith(stuck, contact time.Duration) resource.Resource {
	return newWith(patience{stuck: stuck, contact: contact})
}
