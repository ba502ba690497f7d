terraform import muster_addon_template.metrics metrics-v1
