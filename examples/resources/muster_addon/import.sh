terraform import muster_addon.logger logger
