// Package addonmanager tests hub and agents with an add-on's manager as others write them:
// it knows the API of Open Cluster Management, and of muster nothing. With client-go alone
// it does what upstream's framework does for an add-on that runs beside the hub.
package addonmanager
