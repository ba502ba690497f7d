terraform import 'muster_addon_placement_score.cost["paris"]' paris/cost
